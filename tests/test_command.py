"""The command's own start, without the package, which takes seconds to load."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from softqd.experiment.signals import Deferred, Terminated, handling, raise_interrupt

ROOT = Path(__file__).parents[1]
# What libraries do to exceptions while they are loaded, or in callbacks.
SWALLOWING = """
import time
print("loading", flush=True)
while True:
    try:
        time.sleep(60)
    except BaseException:
        pass
"""
# One C call, which looks at nothing.
BUSY = "print('loading', flush=True); import hashlib\n"
BUSY += "hashlib.pbkdf2_hmac('sha256', b'', b'', 10**9)\n"


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("code", [SWALLOWING, BUSY], ids=["swallowing", "busy"])
def test_signals_end_the_command_while_it_is_loaded(tmp_path, how, code):
    (tmp_path / "softqd").mkdir()
    (tmp_path / "softqd" / "__init__.py").write_text("")
    (tmp_path / "softqd" / "cli.py").write_text(code)
    process = subprocess.Popen(
        [sys.executable, "-c", "from softqd_command import main; main()"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": f"{tmp_path}{os.pathsep}{ROOT}"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout.readline() == "loading\n"
    process.send_signal(how)
    _, err = process.communicate(timeout=20)
    word = {signal.SIGINT: "interrupted", signal.SIGTERM: "terminated"}[how]
    assert (process.returncode, err) == (128 + how, f"softqd: {word}\n")


def test_the_first_signal_is_held_back_and_the_second_is_not():
    with handling(raise_interrupt):
        with Deferred() as deferred:
            assert deferred.pending == 0
            signal.raise_signal(signal.SIGINT)
            assert deferred.pending == signal.SIGINT
            with pytest.raises(KeyboardInterrupt):
                signal.raise_signal(signal.SIGINT)
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)


def test_sigterm_is_like_ctrl_c_where_somebody_listens(monkeypatch):
    before = signal.getsignal(signal.SIGTERM)
    with Deferred():  # nobody does
        assert signal.getsignal(signal.SIGTERM) == before
    monkeypatch.setattr(signal, "getsignal", lambda number: raise_interrupt)
    with Deferred() as deferred:
        signal.raise_signal(signal.SIGTERM)
        assert deferred.pending == signal.SIGTERM
        with pytest.raises(Terminated):
            signal.raise_signal(signal.SIGTERM)
    signal.signal(signal.SIGTERM, before)
    signal.signal(signal.SIGINT, signal.default_int_handler)
