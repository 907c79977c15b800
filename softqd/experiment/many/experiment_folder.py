"""The folder of a comparison or a sweep as it is read: every file once."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path

from softqd.experiment.many.comparison import FILE_NAME, Comparison, load_comparison
from softqd.experiment.many.plan import folder_name
from softqd.experiment.many.sweep import FILE_NAME as SWEEP_FILE
from softqd.experiment.many.sweep import Sweep, sweep_of
from softqd.experiment.run_folder import RunFolder


class ExperimentFolder:
    """A folder of ``softqd compare`` or ``softqd sweep``."""

    def __init__(self, path: str | Path):
        self.path = Path(path)

    @property
    def is_comparison(self) -> bool:
        """Whether a comparison has ended there; a sweep is one of settings."""
        return (self.path / FILE_NAME).exists()

    @property
    def is_sweep(self) -> bool:
        """Whether a sweep has ended there."""
        return (self.path / SWEEP_FILE).exists()

    @cached_property
    def comparison(self) -> Comparison:
        """What was found, by algorithm or setting."""
        return load_comparison(self.path)

    @cached_property
    def sweep(self) -> Sweep:
        """What a sweep found."""
        return sweep_of(self.path, self.comparison)

    @cached_property
    def runs(self) -> dict[str, dict[int, RunFolder]]:
        """The run folders of the comparison by name and seed, there or not."""
        return {
            name: {
                seed: RunFolder(self.path / folder_name(name) / f"seed_{seed}")
                for seed in entry.seeds
            }
            for name, entry in self.comparison.algorithms.items()
        }

    @cached_property
    def finished(self) -> list[RunFolder]:
        """All finished runs that are there, of the comparison or not."""
        paths = sorted(path.parent for path in self.path.glob("*/seed_*/metrics.json"))
        return [run for run in map(RunFolder, paths) if run.is_finished]
