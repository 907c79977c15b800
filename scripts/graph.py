"""The import graph of the package, room by room: files, lines, and who imports whom.

Usage: python scripts/graph.py [FOLDER]   (default: softqd)
"""

import ast
import sys
from collections import Counter
from pathlib import Path


def room_of(name: str) -> str:
    """The room of a module such as ``softqd.ops.cvt``; ``softqd`` for the list."""
    return [*name.split("."), "softqd"][1]


def imported(path: Path) -> list[str]:
    """Modules of the package that a file imports, anywhere in it."""
    names = []
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module == "softqd":
            names += [f"softqd.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names.append(node.module or "")
    return [name for name in names if name.startswith("softqd.")]


def main() -> None:
    """Print one line per room."""
    root = Path(sys.argv[1] if len(sys.argv) > 1 else "softqd")
    files, lines, edges = Counter(), Counter(), {}
    for path in sorted(root.rglob("*.py")):
        parts = path.relative_to(root).with_suffix("").parts
        room = "softqd" if parts == ("__init__",) else parts[0]
        files[room] += 1
        lines[room] += len(path.read_text().splitlines())
        others = Counter(map(room_of, imported(path)))
        edges.setdefault(room, Counter()).update(others)
        edges[room].pop(room, None)
    print(f"{'room':12} {'files':>5} {'lines':>6}  imports")
    for room in sorted(files, key=lambda room: len(edges[room])):
        text = ", ".join(f"{name} {count}" for name, count in edges[room].most_common())
        print(f"{room:12} {files[room]:5} {lines[room]:6}  {text}")
    total = sum(sum(counts.values()) for counts in edges.values())
    print(
        f"{'all':12} {sum(files.values()):5} {sum(lines.values()):6}  {total} imports"
    )


if __name__ == "__main__":
    main()
