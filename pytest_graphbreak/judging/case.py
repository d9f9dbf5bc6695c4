"""What is judged, and by what; and what a failure says besides: of the test, the files, the lines.

Whoever judges looks these up: the gate, a block, a command, for a report of another machine.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple, Protocol

from msgspec import Struct, field

from pytest_graphbreak.baseline.model import Expected
from pytest_graphbreak.config.typed import Typed
from pytest_graphbreak.model.budget import Cap
from pytest_graphbreak.model.layer import Versions
from pytest_graphbreak.model.record import NOWHERE, Frame, Record


class Case(Struct, frozen=True):
    """A record, and everything that it is judged by.

    ``expected`` is the baseline for its profile, ``cap`` the cap in the code, ``ungated`` why it is
    not judged at all. ``excused`` are verdicts that do not fail it, whatever the rules say.
    ``versions`` of compilers and ``packages`` are those that made it.
    """

    record: Record
    expected: Expected | None = None
    cap: Cap | None = None
    ungated: str | None = None
    excused: Collection[str] = ()
    versions: Versions = {}
    packages: Mapping[str, str] = {}


class ChangedLine(NamedTuple):
    """A line that changed since the baseline; ``deleted`` if it is not there any more."""

    where: Frame
    deleted: bool = False


class SourceLines(Protocol):
    """Lines of a checkout."""

    def definition_of(self, function: Frame) -> Frame:
        """Return the same function, with the line where it begins if that is known."""
        ...

    def changed_lines(self, near: Sequence[Frame]) -> tuple[str, Sequence[ChangedLine]]:
        """Return the commit of the baseline, and the lines of the test that changed since then.

        Lines in functions of the frames ``near`` come first.
        """
        ...


class Context(Struct, frozen=True):
    """What the text of a failed test says besides its case and the verdict.

    ``baseline`` is the file as it is shown (``baselines/tests/test_a.yaml``), and
    ``baseline_line`` the line of the entry. ``typed`` is how pytest was started, ``test`` the place
    of the test, ``accept`` the command that accepts if baselines are not written from here: in CI,
    and for a report of another machine; ``not_accepted`` says why there is none. ``source`` is the
    checkout that was tested, if it is here.
    """

    nodeid: str
    profile: str
    baseline: str | None = None
    baseline_line: int | None = None
    accept: str | None = None
    not_accepted: str = ""
    typed: Typed = field(default_factory=Typed)
    test: Frame = NOWHERE
    fixtures: Mapping[str, int] = {}
    """The number of its graphs that the test's fixtures made before its call, by layer."""
    source: SourceLines | None = None
