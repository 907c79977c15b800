"""What is right and what is wrong about the end of a command, and counts of it."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

WRONG = ("tracebacks", "hangs", "wrong exits", "unequal")
MOST_BYTES = 2 * 10**9


class End(NamedTuple):
    """How a command ended; without a status it did not, in the time it was given."""

    status: int | None
    err: str


def verdict(end: End, statuses: tuple[int, ...]) -> str | None:
    """What is wrong with an end; None if nothing is.

    A status that is not 0 comes with one line of softqd's, and no traceback with any.
    """
    if end.status is None:
        return "hangs"
    if "Traceback (most recent call last)" in end.err:
        return "tracebacks"
    if end.status not in statuses:
        return "wrong exits"
    told = [line for line in end.err.splitlines() if line.startswith("softqd: ")]
    return "wrong exits" if end.status and len(told) != 1 else None


@dataclass
class Tally:
    """Counts by what was tried; what went wrong, in full."""

    tried: Counter = field(default_factory=Counter)
    wrong: Counter = field(default_factory=Counter)
    faults: list[str] = field(default_factory=list)
    most_bytes: int = 0

    def count(self, what: str, wrong: str | None = None, told: object = "") -> None:
        """One more of these; ``wrong`` is one of `WRONG`."""
        self.tried[what] += 1
        if wrong is not None:
            self.wrong[what, wrong] += 1
            self.faults.append(f"{what}: {wrong}: {told}")

    def add(self, other: "Tally") -> None:
        """Put another tally's counts to these."""
        self.tried += other.tried
        self.wrong += other.wrong
        self.faults += other.faults
        self.most_bytes = max(self.most_bytes, other.most_bytes)

    @property
    def is_clean(self) -> bool:
        """Whether nothing went wrong."""
        return not self.wrong and self.most_bytes < MOST_BYTES

    def table(self) -> Iterator[str]:
        """Lines of Markdown."""
        yield "| tried | times | " + " | ".join(WRONG) + " |"
        yield "|---|" + "---:|" * (1 + len(WRONG))
        for what, times in self.tried.items():
            counts = " | ".join(f"{self.wrong[what, w]}" for w in WRONG)
            yield f"| {what} | {times:,} | {counts} |"
