"""Shared fixtures. Shapes and types of array functions are checked while tests run."""

import gc
import os
import tempfile

import programs

# Before JAX starts, for this process and all that it starts: compiling is most of what
# tests cost, so programs are shared and hardly optimized.
if "JAX_DISABLE_MOST_OPTIMIZATIONS" not in os.environ:
    _store = tempfile.TemporaryDirectory(prefix="softqd-tests-")
    kept = os.environ.get("SOFTQD_TEST_PROGRAMS", _store.name)
    os.environ.update(programs.quick_environment(kept))

from jaxtyping import install_import_hook

# Not where user input enters: there, our own messages are what is tested.
ARRAY_ROOMS = ["ops", "objective"]
install_import_hook([f"softqd.{room}" for room in ARRAY_ROOMS], "beartype.beartype")

import urllib.request  # noqa: E402
from urllib.parse import urlsplit  # noqa: E402

import jax  # noqa: E402
import pytest  # noqa: E402
from toys import make_bowl  # noqa: E402

# Scripts that make the data, with libraries that tests do without.
collect_ignore_glob = ["data/*.py", "fixtures/*.py"]

jax.config.update("jax_numpy_rank_promotion", "raise")
# Programs are many objects that stay: let the garbage collector come seldom.
gc.set_threshold(100_000)


@pytest.fixture
def x64():
    """Double precision for one test."""
    with jax.enable_x64(True):
        yield


@pytest.fixture
def optimized_programs():
    """Programs as users get them, for tests that run longer than they compile."""
    jax.config.update("jax_disable_most_optimizations", False)
    yield
    jax.config.update("jax_disable_most_optimizations", True)


@pytest.fixture
def bowl():
    return make_bowl()


_urlopen = urllib.request.urlopen


def _local_only(request, **settings):
    url = request if isinstance(request, str) else request.full_url
    if urlsplit(url).hostname not in ("127.0.0.1", "localhost"):
        raise ConnectionError("tests do not use the network")
    return _urlopen(request, **settings)


@pytest.fixture(autouse=True, scope="session")
def own_cache(tmp_path_factory):
    """Tests neither use the user's cache nor the network."""
    patch = pytest.MonkeyPatch()
    patch.setenv("SOFTQD_CACHE", str(tmp_path_factory.mktemp("cache")))
    patch.setattr(urllib.request, "urlopen", _local_only)
    yield
    patch.undo()


@pytest.fixture(autouse=True, scope="module")
def forget_programs():
    """Compiled programs of a module are of no use to the next one, and large."""
    yield
    jax.clear_caches()
