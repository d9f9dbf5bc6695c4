"""The ``graphbreak`` command: finds the subcommand, runs it, and ends with its exit code.

Each subcommand is a module of ``cli`` with ``add_arguments(parser)`` and ``run(args)``, which
returns the exit code; it is imported only if it is used, and so is what is imported in functions
here.

``main`` ends every command in one way. What each can end with, and the exit code:

    a code of the command itself, from ``run``      0, 1 or 2
    ``UserError``, ``OSError`` and the like         2, and one line
    any other exception, a defect of ours           2, and the traceback
    Ctrl-C, ``Terminated`` by another signal        128 + the number of the signal
    nobody reads our output any more (``| head``)   0
"""

from __future__ import annotations

import argparse
import contextlib
import difflib
import importlib
import os
import signal
import sys
import traceback
from collections.abc import Iterator, Sequence
from types import FrameType
from typing import Final, NoReturn, TextIO

GROUPS: Final = {
    "judge": {
        "check": "give one verdict over the reports of all shards",
        "accept": "write baselines from JSON reports",
        "report": "render JSON reports as text, Markdown or HTML",
        "compare": "show what changed between two runs, by cause",
    },
    "look": {
        "run": "run a script and report its graphs",
        "explain": "explain what a reason means and how to fix it",
        "analyze": "count and explain the graphs in a log",
        "doctor": "check what works on this machine and what does not",
    },
    "mend": {
        "fix": "write a patched copy of a script, proved",
        "prove": "prove that a patched program does the same in fewer graphs",
        "repro": "write scripts that reproduce graph breaks",
        "dynamic": "compare static and dynamic sizes, in graphs",
        "export": "check whether torch.export accepts what a program compiles",
    },
}
"""The commands with their help, by what they are needed for."""
COMMANDS: Final = {name: words for group in GROUPS.values() for name, words in group.items()}

LONGEST: Final = 1000
"""The largest number of characters in an error line."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line and return the exit code. A usage error exits with 2."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    name = arguments[0] if arguments and arguments[0] in COMMANDS else None
    parser = _parser(name)
    if name is None and (near := difflib.get_close_matches(" ".join(arguments[:1]), COMMANDS, 1)):
        parser.error(f"invalid choice: {arguments[0]!r}; did you mean {near[0]!r}?")
    if not arguments:
        parser.print_help(sys.stderr)
        return 2
    parsed = parser.parse_args(arguments)
    parsed.typed = argv is None  # whether this process is the command's own
    try:
        code = _guard(parsed)
    except BrokenPipeError:
        code = 0  # the reader of our output went away (`| head`), which is fine
    except KeyboardInterrupt as stop:
        with contextlib.suppress(OSError):  # the terminal may be gone
            print("graphbreak: interrupted", file=sys.stderr, flush=True)
        code = exit_code(stop)
    _flush()
    return code


def _guard(parsed: argparse.Namespace) -> int:
    """Run the command, and turn expected and unexpected errors into a message and exit code 2.

    The code is never 1, Python's code for a traceback, which means "over budget" for `check`.
    """
    from pytest_graphbreak.cli.messages import UNUSABLE, complain
    from pytest_graphbreak.text.errors import UserError

    try:
        return int(importlib.import_module(f"pytest_graphbreak.cli.{parsed.command}").run(parsed))
    except BrokenPipeError:
        raise
    except UserError as error:
        complain(f"graphbreak {parsed.command}: {error}")
        for line in error.words:
            complain(f"    {line}")
    except (OSError, ValueError, RecursionError, MemoryError) as error:
        complain(f"graphbreak {parsed.command}: {_words(error)}")
    except Exception:
        traceback.print_exc()
        complain(f"graphbreak {parsed.command}: this is a defect of graphbreak, please report it")
    return UNUSABLE


def _words(error: Exception) -> str:
    """Return the error as one line of limited length."""
    from pytest_graphbreak.text.errors import failure_words

    if isinstance(error, RecursionError):
        return "the input is nested too deeply"
    if isinstance(error, MemoryError):
        return "the input needs more memory than there is"
    return (" ".join(failure_words(error).split()) or type(error).__name__)[:LONGEST]


# The end of a command: signals, and output that nobody reads any more.


class Terminated(KeyboardInterrupt):
    """Raised for a signal that ends the process, so what clears up at Ctrl-C does it here, too."""

    def __init__(self, number: int) -> None:
        super().__init__(signal.Signals(number).name)
        self.number = number


def exit_code(stop: KeyboardInterrupt) -> int:
    """Return the exit code of a process that was interrupted, as shells do: 130 for Ctrl-C."""
    return 128 + (stop.number if isinstance(stop, Terminated) else signal.SIGINT)


@contextlib.contextmanager
def cleared_up() -> Iterator[None]:
    """Raise ``Terminated`` for signals in the block; signals that are ignored stay ignored.

    The commands that start processes and write temporary files are in such a block. After a signal,
    output may fail because the terminal was closed; that is not an error.
    """
    before = {}
    came: list[int] = []  # the signal, once there was one

    def end(number: int, _: FrameType | None) -> None:
        if not came:  # the clearing up is not interrupted
            came.append(number)
            raise Terminated(number)

    for name in ("SIGTERM", "SIGHUP"):
        number = getattr(signal, name, None)
        if number is not None and signal.getsignal(number) is signal.SIG_DFL:
            with contextlib.suppress(ValueError):  # not the main thread
                before[number] = signal.signal(number, end)
    try:
        yield
    except OSError:
        if not came:
            raise
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(OSError, ValueError):
                _discard(stream)
        raise Terminated(came[0]) from None
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _flush() -> None:
    """Flush both streams; what cannot be written is discarded, or Python would exit with 120."""
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(ValueError, AttributeError):  # closed, or missing
            try:
                stream.flush()
            except OSError:
                _discard(stream)


def _discard(stream: TextIO) -> None:
    """Send all further output of a stream nowhere."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


class _Parser(argparse.ArgumentParser):
    """A parser that wraps error messages to the terminal, like all other output."""

    def error(self, message: str) -> NoReturn:
        from pytest_graphbreak.cli.messages import complain

        self.print_usage(sys.stderr)
        complain(f"{self.prog}: error: {message}")
        sys.exit(2)


def _parser(chosen: str | None) -> argparse.ArgumentParser:
    """Return a parser with the names of all commands, and the arguments of the chosen one only."""
    from pytest_graphbreak.config.packages import version

    groups = (
        "\n".join((f"{title}:", *(f"  {name:<9} {words}" for name, words in group.items())))
        for title, group in GROUPS.items()
    )
    parser = _Parser(
        prog="graphbreak",
        description="Count, compare and explain the graphs of compiled models.",
        epilog="\n\n".join(groups),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--version", action="version", version=f"graphbreak {version('pytest-graphbreak')}"
    )
    commands = parser.add_subparsers(
        dest="command", required=True, metavar="COMMAND", help="see below; COMMAND --help says more"
    )
    for name, text in COMMANDS.items():
        command = commands.add_parser(name, description=f"{text[0].upper()}{text[1:]}.")
        if name == chosen:
            importlib.import_module(f"pytest_graphbreak.cli.{name}").add_arguments(command)
    return parser
