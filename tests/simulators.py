"""Functions of NumPy arrays for worker processes, which import nothing but NumPy."""

import os
import time
from pathlib import Path

import numpy as np


def bowl(x):
    """As `toys.make_bowl`."""
    return 10.0 - float(np.sum((x - 0.3) ** 2)), 1.0 / (1.0 + np.exp(-x[:2]))


def bowl_slowly(x):
    """As the bowl, in a moment."""
    time.sleep(0.05)
    return bowl(x)


def noisy(x, rng):
    """With a quality that is another one each time."""
    quality, behavior = bowl(x)
    return quality + rng.normal(), behavior


def raises(x):
    """Nothing but an error."""
    raise ZeroDivisionError("no wind")


def raises_at(at, x):
    """An error at one solution."""
    return raises(x) if np.allclose(x, at) else bowl(x)


def dies(folder, at, x):
    """Ends its process at one solution: once, where ``folder`` remembers it."""
    if np.allclose(x, at):
        _once(folder, lambda: os._exit(1))
    return bowl(x)


def hangs(folder, at, x, seconds=60.0):
    """Does not return for one solution: once, where ``folder`` remembers it."""
    if np.allclose(x, at):
        _once(folder, lambda: time.sleep(seconds))
    return bowl(x)


def _once(folder, act):
    if folder is None:
        act()
        return
    flag = Path(folder, "done")
    if not flag.exists():
        flag.touch()
        act()


def factory(size=6):
    """The bowl as a problem, for the command line."""
    import softqd

    return softqd.interop.host.problem(
        bowl,
        lambda rng: rng.normal(size=size),
        behavior_bounds=((0, 0), (1, 1)),
        is_differentiable=False,
    )
