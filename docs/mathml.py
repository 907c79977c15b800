"""A mkdocs hook: formulae become MathML when the pages are built.

The pages need no script for them and open from disk, without a network. Formulae are
LaTeX between dollars, in pages and in docstrings; arithmatex finds them.
"""

import re
from html import unescape

from latex2mathml.converter import convert
from mkdocs.exceptions import PluginError

# In the order they are looked for: a paragraph that is one formula is displayed.
INLINE = r'<span class="arithmatex">\\\((.*?)\\\)</span>'
FORMS = (
    (re.compile(r'<div class="arithmatex">\s*\\\[(.*?)\\\]\s*</div>', re.S), "block"),
    (re.compile(rf"<p>\s*{INLINE}\s*</p>", re.S), "block"),
    (re.compile(INLINE, re.S), "inline"),
)


def on_page_content(html, page, **_):
    """Replace every formula of a page, its docstrings included."""
    for pattern, display in FORMS:
        html = pattern.sub(lambda m, d=display: _mathml(m[1], d, page), html)
    return html


def _mathml(latex, display, page):
    latex = " ".join(unescape(latex).split())
    try:
        formula = convert(latex, display=display)
    except Exception as error:
        name = type(error).__name__
        raise PluginError(
            f"{page.file.src_path}: no MathML for {latex!r}: {name}"
        ) from error
    if "\\" in unescape(formula):
        raise PluginError(f"{page.file.src_path}: MathML of {latex!r} has LaTeX in it")
    if display == "block":
        return f'<div class="arithmatex">{formula}</div>'
    return formula
