"""What the start loads, counted in modules: heavy ones come where they are used."""

import json
import subprocess
import sys

HEAVY = {
    "IPython",
    "PIL",
    "matplotlib",
    "pandas",
    "ribs",
    "safetensors",
    "scipy.linalg",
    "scipy.optimize",
    "scipy.sparse",
    "scipy.spatial",
    "scipy.stats",
    "torch",
    "transformers",
}
# One process for all: importing JAX is what this costs.
SCRIPT = """
import contextlib, io, json, sys
import softqd
loaded = [sorted(sys.modules)]
from softqd import cli
with contextlib.redirect_stdout(io.StringIO()):
    assert cli.invoke(["--help"]) == cli.invoke(["list"]) == 0
loaded.append(sorted(sys.modules))
softqd.soft_qd_score([1.0], [[0.5, 0.5]], 0.1)
loaded.append(sorted(sys.modules))
json.dump(loaded, sys.stdout)
"""


def test_start_loads_nothing_heavy():
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=True
    )
    package, commands, metrics = map(set, json.loads(done.stdout))
    assert "softqd.algorithms" in package
    # The commands need rich for their tables.
    assert not package & {*HEAVY, "rich", "softqd.networks._graph"}
    assert not commands & HEAVY
    assert "scipy.stats" in metrics
