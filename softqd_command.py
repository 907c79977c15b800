"""The command ``softqd``: listens to Ctrl-C and SIGTERM before anything else is loaded.

Loading the package takes seconds, and an exception in the middle of it, or of a
callback of a library, may be printed or lost. So no exception is raised: a thread that
C code wakes at once says one line and ends the process, with status 130 or 143. What
must keep its state first, a run on its way, handles the signals itself for so long.
"""

import os
import signal
import sys
import threading
from contextlib import suppress

_SIGNALS = (signal.SIGINT, signal.SIGTERM)
_WORDS: dict[int, str] = {signal.SIGINT: "interrupted", signal.SIGTERM: "terminated"}
_SHOW_CURSOR = "\x1b[?25h"  # progress bars hide it
_is_leaving = threading.Lock()
_is_listening = False
# What to do to go on; commands say so while it is true.
how_to_go_on = ""


def main() -> None:
    """Entry point."""
    listen()
    from softqd.cli import main as run

    run()


def listen() -> None:
    """Answer to Ctrl-C and SIGTERM from now on."""
    global _is_listening
    _is_listening = True
    woken, waker = os.pipe()
    os.set_blocking(waker, False)
    for number in _SIGNALS:
        signal.signal(number, leave)
    signal.set_wakeup_fd(waker, warn_on_full_buffer=False)
    threading.Thread(target=_wait, args=(woken,), daemon=True).start()


def _wait(woken: int) -> None:
    """Leave when a signal comes, even while C code keeps Python from noticing it."""
    while number := os.read(woken, 1):
        if signal.getsignal(number[0]) is leave:
            leave(number[0])


def begin_to_leave() -> bool:
    """Whether nobody else has begun to; of threads that ask, one says the line."""
    return not _is_listening or _is_leaving.acquire(blocking=False)


def words(number: int) -> str:
    """The line."""
    return f"{_WORDS[number]}{'; ' * bool(how_to_go_on)}{how_to_go_on}"


def leave(number: int, frame: object = None) -> None:
    """Say one line and end the process: the handler of both signals."""
    if not begin_to_leave():
        return
    if "multiprocessing" in sys.modules:
        for child in sys.modules["multiprocessing"].active_children():
            child.kill()
    start = f"{_SHOW_CURSOR}\n" if os.isatty(2) else ""
    with suppress(OSError):  # nobody listens
        line = f"{start}softqd: {words(number)}\n"
        os.write(2, line.encode(errors="replace"))
    # Threads of the compiler may crash while Python takes itself down.
    os._exit(128 + number)
