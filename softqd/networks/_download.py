"""Download a file once: verified, and continued where it broke off."""

from __future__ import annotations

import http.client
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

from softqd.networks._weight_files import sha256_of

# Called with the bytes that are there and the bytes in all.
Report = Callable[[int, int | None], None]

_ATTEMPTS = 4
_TIMEOUT = 30  # seconds without a byte
_CHUNK = 1 << 20
_BROKEN = (OSError, http.client.HTTPException)


class DownloadError(ValueError):
    """A file that could not be fetched, or is not the one expected."""


def download(
    url: str,
    path: Path,
    sha256: str,
    *,
    size: int | None = None,
    report: Report | None = None,
) -> Path:
    """Fetch a file to ``path``, unless the right one is already there.

    What has arrived is kept beside it as ``NAME.part``: another attempt, or another
    call, asks the server for the rest only. The file gets its name once it is whole and
    its checksum is right.

    Args:
        url: Its address.
        path: Where it will be.
        sha256: Its checksum.
        size: In bytes, if known: some servers do not say.
        report: Told of the progress.

    Raises:
        DownloadError: If it cannot be fetched, or has another checksum.
    """
    if path.is_file() and sha256_of(path) == sha256:
        return path
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(path.name + ".part")
    is_continued = part.exists()
    _fetch(url, part, size, report)
    actual = sha256_of(part)
    if is_continued and actual != sha256:
        part.unlink()  # what was there before is not of this file
        _fetch(url, part, size, report)
        actual = sha256_of(part)
    if actual != sha256:
        part.unlink()
        raise DownloadError(
            f"{url}: the checksum of what came is sha256 {actual} and should be "
            f"{sha256}; it was thrown away"
        )
    part.replace(path)
    return path


def _fetch(url: str, part: Path, size: int | None, report: Report | None) -> None:
    """Fetch what is missing of a file, in a few attempts.

    Raises:
        DownloadError: If the server refuses, or nothing more comes.
    """
    for attempt in range(1, _ATTEMPTS + 1):
        before = _size(part)
        try:
            return _continue(url, part, size, report)
        except urllib.error.HTTPError as error:
            is_whole = error.code == http.HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE
            if is_whole and before:
                return None  # nothing is left to send; the checksum decides
            raise DownloadError(f"{url}: the server answers {error}") from None
        except _BROKEN as error:
            if attempt == _ATTEMPTS or (attempt > 1 and _size(part) == before):
                raise DownloadError(_broken_message(url, part, error)) from None
    return None


def _continue(url: str, part: Path, size: int | None, report: Report | None) -> None:
    """Ask for what is missing of the file, and write it as it comes."""
    request = urllib.request.Request(url, headers={"User-Agent": "softqd"})
    done = _size(part)
    if done:
        request.add_header("Range", f"bytes={done}-")
    with urllib.request.urlopen(request, timeout=_TIMEOUT) as response:
        is_rest = response.status == http.HTTPStatus.PARTIAL_CONTENT
        # A server may send it from the start all the same.
        skip = 0 if is_rest else done
        total = _total(response, done if is_rest else 0) or size
        with part.open("ab") as file:
            # As much as there is: if the connection breaks, all that came is written.
            while chunk := response.read1(_CHUNK):
                new = chunk[skip:]
                skip -= len(chunk) - len(new)
                file.write(new)
                done += len(new)
                if report is not None:
                    report(done, total)
    if total is not None and done < total:
        raise ConnectionError(f"{done:,} of {total:,} bytes came")


def _total(response: Any, done: int) -> int | None:
    length = response.headers.get("Content-Length")
    return None if length is None else done + int(length)


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def _broken_message(url: str, part: Path, error: BaseException) -> str:
    reason = getattr(error, "reason", error)
    kept = _size(part)
    rest = f"; the {kept:,} bytes that came are kept" if kept else ""
    return f"{url} could not be fetched ({type(error).__name__}: {reason}){rest}"
