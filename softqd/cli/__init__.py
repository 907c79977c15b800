"""The command line: parse, call, print. One file per command."""

from __future__ import annotations

import os
import sys
from typing import Annotated

import typer

import softqd
import softqd_command
from softqd.cli._compare import compare
from softqd.cli._errors import Interrupted
from softqd.cli._figure import figure
from softqd.cli._list import list_names
from softqd.cli._population import evaluate, select_members
from softqd.cli._report import report
from softqd.cli._reproduce import reproduce
from softqd.cli._run import run
from softqd.cli._sweep import sweep
from softqd.cli._weights import app as weights

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    help="Quality-diversity optimization without a grid.",
)
app.command(name="list")(list_names)
for _command in (run, evaluate, compare, sweep, figure, report, reproduce):
    app.command()(_command)
app.command(name="select")(select_members)
# Of processes that a signal ended, in shells.
_SIGNALLED = 128
app.add_typer(weights, name="weights")


def main() -> None:
    """Run a command and turn failures into exit statuses; `softqd_command` calls it."""
    status = invoke(sys.argv[1:])
    if status > _SIGNALLED:
        # An interrupted compilation may crash while Python takes itself down.
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)
    sys.exit(status)


def invoke(arguments: list[str]) -> int:
    """Run a command and return its exit status.

    0 on success, 2 on wrong usage or bad input, 1 on a failed run; after Ctrl-C 130 and
    after SIGTERM 143.
    """
    softqd_command.how_to_go_on = ""
    try:
        return app(arguments, standalone_mode=False) or 0
    except KeyboardInterrupt as interrupt:
        return _interrupted(Interrupted(interrupt).signal)
    except Interrupted as interrupted:
        return _interrupted(interrupted.signal)
    except (ValueError, OSError) as error:
        _complain(str(error))
        return 2
    except OverflowError as error:  # sizes whose product no array can have
        _complain(f"a number is too large ({error}); give smaller settings")
        return 2
    except (ArithmeticError, RuntimeError, MemoryError) as error:
        _complain(f"the run failed: {error}")
        return 1
    except Exception as error:
        # Typer's own complaints, whichever click it is built on.
        message = getattr(error, "format_message", None)
        if message is None:
            raise
        if not message():  # no command: the help has been shown
            return 2
        text = message().rstrip(".")
        _complain(f"{text}; run 'softqd --help' or 'softqd COMMAND --help'")
        return 2


def _interrupted(number: int) -> int:
    """Say so, unless that is done already; the exit status."""
    if softqd_command.begin_to_leave():
        _complain(softqd_command.words(number))
    return _SIGNALLED + number


def _complain(message: str) -> None:
    from softqd.experiment.files.schema import printable

    line = printable(" ".join(message.split()))
    print(f"softqd: {line}", file=sys.stderr)


def _show_version(wanted: bool) -> None:
    if wanted:
        print(f"softqd {softqd.__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool,
        typer.Option(
            "--version",
            callback=_show_version,
            is_eager=True,
            help="Show the version and exit.",
        ),
    ] = False,
) -> None:
    """Quality-diversity optimization without a grid."""
