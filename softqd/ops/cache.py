"""Where things that take long to make or fetch are kept between runs."""

from __future__ import annotations

import os
from pathlib import Path


def cache_folder() -> Path:
    """The folder that ``SOFTQD_CACHE`` names, by default ``~/.cache/softqd``."""
    return Path(os.environ.get("SOFTQD_CACHE", Path.home() / ".cache" / "softqd"))
