"""How tests have their programs compiled: quickly, rather than well."""

import importlib.metadata
import importlib.util
import mmap
import os
from pathlib import Path

# The older way of writing loops takes half the time to compile.
_OLD_LOOPS = "xla_cpu_use_fusion_emitters"


def quick_environment(store: str) -> dict[str, str]:
    """Variables that JAX reads when it starts.

    Args:
        store: Folder where processes find what others have compiled.
    """
    return {
        "JAX_COMPILATION_CACHE_DIR": store,
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
        "JAX_DISABLE_MOST_OPTIMIZATIONS": "1",
        "XLA_FLAGS": _quick_flags(),
        # Every core has a process already: threads would wait for each other.
        "OPENBLAS_NUM_THREADS": "1",
    }


def _quick_flags() -> str:
    flags = os.environ.get("XLA_FLAGS", "")
    # XLA ends the process over a flag that it does not know.
    if _OLD_LOOPS in flags or not _is_known(_OLD_LOOPS):
        return flags
    return f"{flags} --{_OLD_LOOPS}=false".strip()


def _is_known(flag: str) -> bool:
    # Later ones still spell it, but refuse it.
    if int(importlib.metadata.version("jaxlib").split(".")[1]) >= 11:
        return False
    libraries = Path(importlib.util.find_spec("jaxlib").origin).parent.glob("*.so")
    return any(_contains(library, flag.encode()) for library in libraries)


def _contains(file: Path, text: bytes) -> bool:
    with (
        file.open("rb") as f,
        mmap.mmap(f.fileno(), 0, access=mmap.ACCESS_READ) as content,
    ):
        return content.find(text) >= 0
