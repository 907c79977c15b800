"""Files damaged as by accident or on purpose, knowing how they are built.

`damaged` takes the bytes of a file and a random generator and gives other bytes: parts
of a zip, numbers of an array's header, values of JSON, TOML and CSV. What a new kind of
file needs is its name.
"""

import io
import json
import struct
import tomllib
import zipfile

import numpy as np
import tomli_w

# What may stand where another value was.
VALUES = (
    *(None, True, 0, -1, 5, 2**63, 10**400, 1.5, -0.0, 1e308, "", "x", "../x", "/x"),
    *(float("nan"), float("inf"), [], {}, [1], [[1]], {"a": 1}, [None] * 3, "\n", "é"),
    *("os:system", "9" * 500, "a" * 400, "\x1b[31m", "[red]x[/red]"),
)
TEXTS = (
    b"",
    b"{",
    b"[" * 5000,
    b"\x00",
    b"\xff\xfe",
    b"nan",
    b"1e999",
    b"=",
    b",",
    b"\n",
)


def damaged(name: str, data: bytes, rng: np.random.Generator) -> bytes:
    """A file of this name, damaged in one way."""
    kind = name.rpartition(".")[2]
    if rng.random() < 0.25:
        return _bytes(data, rng)
    return {"json": _json, "toml": _toml, "csv": _csv, "npz": _npz}[kind](data, rng)


def _bytes(data, rng):
    """Bits flipped, cut off, repeated or put in."""
    at = int(rng.integers(len(data)))
    match int(rng.integers(5)):
        case 0:
            return data[:at]
        case 1:
            return data[:at] + data[at + int(rng.integers(1, 40)) :]
        case 2:
            return data[:at] + pick(TEXTS, rng) + data[at:]
        case 3:
            return data[at:] + data[:at]
    found = bytearray(data)
    for place in rng.integers(len(data), size=int(rng.integers(1, 6))):
        found[place] ^= 1 << int(rng.integers(8))
    return bytes(found)


def pick(values, rng):
    return values[int(rng.integers(len(values)))]


def changed(tree, rng):
    """A tree of dictionaries and lists with one thing changed in it."""
    places = list(_places(tree))
    if not places:
        return pick(VALUES, rng)
    holder, key = pick(places, rng)
    match int(rng.integers(5)):
        case 0:
            del holder[key]
        case 1 if isinstance(holder, dict):
            holder[str(pick(VALUES, rng))[:300]] = holder.pop(key)
        case 2 if isinstance(holder, dict):
            holder[str(pick(VALUES, rng))[:300]] = pick(VALUES, rng)
        case 3:
            value = pick(VALUES, rng)
            for _ in range(int(rng.integers(1, 2000))):
                value = [value] if rng.random() < 0.5 else {"a": value}
            holder[key] = value
        case _:
            holder[key] = pick(VALUES, rng)
    return tree


def _places(tree):
    items = tree.items() if isinstance(tree, dict) else enumerate(tree)
    for key, value in items:
        yield tree, key
        if isinstance(value, (dict, list)):
            yield from _places(value)


def _json(data, rng):
    try:
        return json.dumps(changed(json.loads(data), rng)).encode()
    except (RecursionError, ValueError):  # deeper, or longer, than can be written
        return b'{"a":' * 3000


def _toml(data, rng):
    try:
        return tomli_w.dumps(changed(tomllib.loads(data.decode()), rng)).encode()
    except (TypeError, RecursionError, ValueError):  # what TOML does not have
        return _bytes(data, rng)


def _csv(data, rng):
    rows = [line.split(b",") for line in data.splitlines()]
    row = pick(rows, rng)
    match int(rng.integers(6)):
        case 0:
            rows = rows[:1]
        case 1:
            row.pop()
        case 2:
            row.append(b"1")
        case 3:
            rows.append(row)
        case _:
            row[int(rng.integers(len(row)))] = str(pick(VALUES, rng)).encode()
    return b"\r\n".join(b",".join(row) for row in rows) + b"\r\n"


def _npz(data, rng):
    """Another archive: entries, headers, flags or contents changed."""
    with zipfile.ZipFile(io.BytesIO(data)) as file:
        entries = {name: file.read(name) for name in file.namelist()}
    name = pick(list(entries), rng)
    match int(rng.integers(7)):
        case 0:
            del entries[name]
        case 1:
            entries[str(pick(VALUES, rng))[:60] + ".npy"] = entries[name]
        case 2:
            entries[name] = _bytes(entries[name], rng)
        case 3:
            entries[name] = _array(pick(ARRAYS, rng))
        case 4:
            entries[name] = _header(entries[name], rng)
        case 5 if "meta.npy" in entries:
            text = np.load(io.BytesIO(entries["meta.npy"])).tobytes()
            entries["meta.npy"] = _array(np.frombuffer(_json(text, rng), np.uint8))
        case _:
            return _flags(data, rng)
    file = io.BytesIO()
    method = pick((zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED), rng)
    with zipfile.ZipFile(file, "w", method) as archive:
        for entry, content in entries.items():
            archive.writestr(entry, content)
    return file.getvalue()


ARRAYS = (
    *(
        np.zeros(()),
        np.zeros((0, 2)),
        np.full((3, 2), np.nan),
        np.arange(5),
        np.ones(3),
    ),
    *(np.array(["x"]), np.array([True]), np.ones((16, 2)), np.full(16, np.inf)),
    *(
        np.ones(2, complex),
        np.zeros(2, "V8"),
        np.zeros(2, "M8[s]"),
        np.array([{}], "O"),
    ),
    *(np.full((16, 2), 1e308), np.full(3, -1), np.zeros(2, [("a", "f4")])),
)


def _array(array):
    file = io.BytesIO()
    np.lib.format.write_array(file, array, allow_pickle=True)
    return file.getvalue()


def _header(content, rng):
    """An array whose header says something else."""
    texts = (
        "(10**9,)",
        "(-1,)",
        "(2**62, 4)",
        "(99999999999, )",
        "()",
        "(3, 'a')",
        "x",
    )
    text = {
        "descr": pick(
            ("'<f4'", "'|O'", "'<f8'", "'|V0'", "[('a','<f4')]", "'|S9'"), rng
        ),
        "fortran_order": pick(("False", "True", "3"), rng),
        "shape": pick(texts, rng),
    }
    head = "{" + ", ".join(f"'{k}': {v}" for k, v in text.items()) + "}\n"
    return (
        b"\x93NUMPY\x01\x00"
        + struct.pack("<H", len(head))
        + head.encode()
        + content[-64:]
    )


def _flags(data, rng):
    """Fields of the zip's own headers: flags, methods, sizes, offsets, names."""
    starts = [i for i in range(len(data)) if data[i : i + 2] == b"PK"]
    found = bytearray(data)
    found[pick(starts, rng) + int(rng.integers(2, 46)) - len(data)] = int(
        rng.integers(256)
    )
    return bytes(found)
