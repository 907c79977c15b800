"""One self-contained HTML page of a run, or of several: ``softqd report``.

The page is a template with its style, its scripts and D3 (``html/``) written into it,
and the data as JSON beside them. It loads nothing, and its content security policy
allows no script but these: whatever a name in the data holds, it stays text.
"""

from __future__ import annotations

import base64
import hashlib
import html
import json
from collections.abc import Sequence
from importlib import resources
from pathlib import Path
from typing import Any

from softqd.experiment.files.whole import write_whole
from softqd.experiment.many.experiment_folder import ExperimentFolder
from softqd.experiment.pictures import MAX_PICTURES
from softqd.experiment.result import Result, load, versions
from softqd.ops.checks import check_count
from softqd.page.comparison_data import comparison_data, gather
from softqd.page.run_data import run_data

_SCRIPTS = (
    "base.js",
    "charts.js",
    "scatter.js",
    "parallel.js",
    "value_map.js",
    "details.js",
    "explore.js",
    "compare.js",
    "main.js",
)


def write_report(
    folders: Sequence[str | Path],
    out: str | Path | None = None,
    *,
    pictures: int = MAX_PICTURES,
) -> Path:
    """Write a page about one run, or about several of one problem.

    Args:
        folders: Run folders, and folders of ``softqd compare``.
        out: The file; by default ``report.html`` in the folder if it is one, else in
            the current folder.
        pictures: Most pictures to show, of all runs together.

    Returns:
        The file.

    Raises:
        ValueError: If a folder holds no run that can be read, or the runs are of
            different problems.

    Examples:
        >>> import tempfile, softqd
        >>> problem = softqd.problems.sphere(solution_dim=8)
        >>> algorithm = softqd.squad(problem, population_size=16)
        >>> folder = tempfile.mkdtemp()
        >>> _ = softqd.run(algorithm, num_iterations=2).save(folder)
        >>> write_report([folder]).name
        'report.html'
    """
    places = [Path(folder) for folder in folders]
    check_count("pictures", pictures, 0)
    if not places:
        raise ValueError("folders is empty; give one or more run folders")
    if len(set(map(Path.resolve, places))) < len(places):
        raise ValueError("a folder is given twice; give every run once")
    path = Path(out) if out is not None else Path("report.html")
    if len(places) == 1 and out is None:
        path = places[0] / "report.html"
    experiments = [ExperimentFolder(place) for place in places]
    if len(places) == 1 and not experiments[0].is_comparison:
        return write_run_report(path, load(places[0]), pictures=pictures)
    gathered = gather(experiments)
    compared, runs, drawn = comparison_data(gathered, pictures)
    title = f"{', '.join(gathered.comparison.algorithms)} on {gathered.problem}"
    notes = list(dict.fromkeys(gathered.notes))
    data = {"title": title, "notes": notes, "runs": runs, "comparison": compared}
    return _write(path, data, drawn)


def write_run_report(path: str | Path, run: Result, *, pictures: int) -> Path:
    """Write a page about a run that has been read.

    Args:
        path: The file.
        run: The run.
        pictures: Most pictures to show.
    """
    data, drawn = run_data(run, pictures)
    title = f"{data['algorithm']} on {data['problem']}"
    label = f"{title}, seed {data['seed']}"
    page = {"title": title, "notes": [], "runs": [{**data, "label": label}]}
    return _write(Path(path), {**page, "comparison": None}, [drawn])


def build_page(data: dict[str, Any], pictures: Sequence[Sequence[str]]) -> str:
    """Put data and pictures into the template.

    Args:
        data: ``title``, ``notes``, ``runs`` and ``comparison``, plain values only.
        pictures: One list per run, JPEG in base64.
    """
    library = _read("d3.min.js")
    code = '"use strict";\n' + "\n".join(_read(name) for name in _SCRIPTS)
    data = {**data, "softqd": versions()["softqd"]}
    blocks = [_json_block("data", data)]
    blocks += [_json_block(f"pictures-{i}", some) for i, some in enumerate(pictures)]
    parts = {
        "POLICY": " ".join(_hash(script) for script in (library, code)),
        "TITLE": html.escape(f"{data['title']} - softqd"),
        "STYLE": _read("style.css"),
        "DATA": "\n".join(blocks),
        "LIBRARY": library,
        "CODE": code,
    }
    page = _read("template.html")
    # Split once, so that nothing in the data can look like a place in the template.
    pieces = page.split("@@")
    return "".join(parts[p] if i % 2 else p for i, p in enumerate(pieces))


def _write(path: Path, data: dict[str, Any], pictures: list[list[str]]) -> Path:
    if path.is_dir():
        raise ValueError(f"{path} is a folder; give the name of a file with --out")
    try:
        return write_whole(path, build_page(data, pictures))
    except OSError as error:
        raise ValueError(
            f"cannot write {path} ({error}); choose another file with --out"
        ) from None


def _read(name: str) -> str:
    return resources.files("softqd.page").joinpath("html", name).read_text("utf-8")


def _json_block(name: str, value: Any) -> str:
    text = json.dumps(value, allow_nan=False, separators=(",", ":"), default=str)
    text = text.replace("<", "\\u003c")  # nothing in it can end the script
    return f'<script type="application/json" id="{name}">{text}</script>'


def _hash(script: str) -> str:
    digest = hashlib.sha256(script.encode("utf-8")).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"
