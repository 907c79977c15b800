"""Looks at the built site: formulae are MathML, and nothing is loaded from elsewhere.

Called by ``make docs`` after mkdocs: ``python docs/check_site.py site``.
"""

import re
import sys
from pathlib import Path

# What a browser fetches by itself: scripts, style sheets, pictures, frames.
FETCHED = re.compile(
    r'<(?:script|img|iframe)[^>]*\bsrc="(?:https?:)?//[^"]*"'
    r'|<link[^>]*\brel="(?:stylesheet|preconnect)"[^>]*\bhref="(?:https?:)?//[^"]*"'
)
LATEX = re.compile(r"\$\\\w+|\\\(|\\\[|\\(?:sum|sqrt|frac|exp|max|gamma|sigma)\b")
WITH_FORMULAE = ("api.html", "concepts.html", "how-to-choose.html")


def complaints(site: Path) -> list[str]:
    """What is wrong with the pages, one line each."""
    found = []
    for page in sorted(site.glob("*.html")):
        text = page.read_text()
        found += [f"{page.name}: fetches {m}" for m in FETCHED.findall(text)]
        shown = re.sub(r"<(script|code|pre)\b.*?</\1>", "", text, flags=re.S)
        found += [f"{page.name}: LaTeX, {m!r}" for m in LATEX.findall(shown)]
        if page.name in WITH_FORMULAE and "<math" not in text:
            found.append(f"{page.name}: no <math")
    missing = [name for name in WITH_FORMULAE if not (site / name).exists()]
    return found + [f"{name}: not there" for name in missing]


if __name__ == "__main__":
    lines = complaints(Path(sys.argv[1]))
    print("\n".join(lines) or "formulae are MathML; nothing is loaded from elsewhere")
    sys.exit(bool(lines))
