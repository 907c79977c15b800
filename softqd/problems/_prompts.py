"""Prompts of the user: checked, paired and named."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

EXAMPLE_PAIRS = "a young pirate | an old pirate; a sad pirate | a happy pirate"
_SPELLING = "write pairs as 'first | second; first | second'"


def check_prompt(name: str, text: Any) -> None:
    """Refuse what is not a sentence.

    Raises:
        ValueError: If the text is empty or no text.
    """
    if not isinstance(text, str) or not text.strip():
        raise ValueError(f"{name} must be a sentence that is not empty; got {text!r}")
    try:
        text.encode()
    except UnicodeEncodeError:
        raise ValueError(f"{name} must be text in UTF-8; got {text!r}") from None


def read_pairs(pairs: Sequence[tuple[str, str]] | str) -> list[tuple[str, str]]:
    """Pairs of sentences from a list, or from ``first | second; first | second``.

    Raises:
        ValueError: If there is no pair, a sentence is missing, or both are equal to a
            network that ignores case and spaces.

    Examples:
        >>> read_pairs("a child | an old man; long hair | short hair")
        [('a child', 'an old man'), ('long hair', 'short hair')]
    """
    is_text = isinstance(pairs, str)
    listed = [part.split("|") for part in pairs.split(";")] if is_text else pairs
    if not isinstance(listed, (list, tuple)) or not listed:
        raise ValueError(
            f"pairs must be a list of at least one pair; got {pairs!r}: {_SPELLING}"
        )
    return [_read_pair(f"pairs[{i}]", pair) for i, pair in enumerate(listed)]


def _read_pair(name: str, pair: Any) -> tuple[str, str]:
    if not isinstance(pair, (list, tuple)) or len(pair) != 2:
        raise ValueError(f"{name} must be two sentences; got {pair!r}: {_SPELLING}")
    for which, text in zip(("first", "second"), pair, strict=True):
        check_prompt(f"the {which} sentence of {name}", text)
    first, second = (" ".join(text.split()) for text in pair)
    if first.lower() == second.lower():
        raise ValueError(
            f"{name}: both sentences are {first!r}; they must differ, or the behavior "
            "would be constant"
        )
    return first, second


def pair_name(first: str, second: str) -> str:
    """What distinguishes two sentences, for titles of figures.

    Words they begin with are left out, words they end with are said once.

    Examples:
        >>> pair_name("Photo of a man with long hair", "Photo of a man with short hair")
        'long to short hair'
        >>> pair_name("Photo of a young kid", "Photo of an elderly person")
        'a young kid to an elderly person'
    """
    a, b = first.split(), second.split()
    start = _num_common(a, b)
    end = _num_common(a[start:][::-1], b[start:][::-1])
    only_a, only_b = a[start : len(a) - end], b[start : len(b) - end]
    if not only_a or not only_b:
        return f"{first} to {second}"
    return " ".join([*only_a, "to", *only_b, *b[len(b) - end :]])


def _num_common(a: list[str], b: list[str]) -> int:
    """How many words two lists begin with alike."""
    alike = [x == y for x, y in zip(a, b, strict=False)]
    return [*alike, False].index(False)
