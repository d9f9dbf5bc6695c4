"""The JSON report: what a run, a script or a log came to, as docs/reference/report.md has it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar, Final

from pytest_graphbreak.model.budget import Cap, Recorded
from pytest_graphbreak.model.described import LOCAL, Described, JsonKey, Keys
from pytest_graphbreak.model.differences import Difference, check_differences
from pytest_graphbreak.model.fields import FACT, LAYER, Count, Counts, LayerName, Settings, Text
from pytest_graphbreak.model.forms import (
    BadValue,
    Checked,
    MapOf,
    Maybe,
    OneOf,
    TextUpTo,
    kind,
    number,
)
from pytest_graphbreak.model.layers import COMPILERS, VERSIONS
from pytest_graphbreak.model.record import Record

VERSION: Final = 1
MOST_SHARDS: Final = 10_000
"""Groups into which a run may be split."""
MOST_PACKAGES: Final = 1000
LONGEST_NAME: Final = 4096
"""Characters of a node id or a file name; a longer one is refused."""
LONGEST_PROFILE: Final = 256
LONGEST_MESSAGE: Final = 200_000
"""Characters of what a failed test showed; what is over is cut."""

OUTCOMES: Final = ("passed", "failed", "skipped", "xfailed", "xpassed", "crashed")
VERDICTS: Final = ("error", "over", "lost", "new", "improved", "changed", "ok", "none")
"""The most urgent first."""


def _name(value: Any) -> str:
    if type(value) is not str:
        raise BadValue(f"{kind(value)} where text is expected")
    if not 0 < len(value) <= LONGEST_NAME:
        raise BadValue(f"a name has 1 to {LONGEST_NAME} characters, this one {len(value)}")
    return value


def _profile(value: Any) -> str:
    if len(_name(value)) > LONGEST_PROFILE or not value.isprintable():
        raise BadValue(f"a profile is printable text of at most {LONGEST_PROFILE} characters")
    return str(value)


def check_version(value: Any) -> int:
    if type(value) is not int or value != VERSION:
        shown = value if type(value) is int and abs(value) < 10**6 else kind(value)
        raise BadValue(
            f"{shown} where {VERSION} is expected; is this a file that "
            "--graph-budget-report wrote, and this graphbreak new enough?",
            "version",
        )
    return value


PROFILE: Final = Checked(_profile, {"type": "string"})
Name = Annotated[str, Checked(_name, {"type": "string"})]
Names = tuple[Name, ...]
Fact = Annotated[str, FACT]
Group = Annotated[int, number(1, MOST_SHARDS, "groups")]


@dataclass(frozen=True, slots=True)
class RunEnvironment(Described):
    """What measured; None for what is not there or not known.

    ``profile`` is the label under which counts are compared, ``versions`` are those of the
    packages that the layers name, ``packages`` those that own places.
    """

    ABOUT: ClassVar = {"": "What measured; null for what is not there or not known."}

    profile: Annotated[
        str | None, Maybe(PROFILE), JsonKey("The label under which counts are compared.")
    ] = None
    device: Fact | None = None
    arch: Fact | None = None
    versions: Annotated[Mapping[str, str | None], Keys(VERSIONS, FACT), JsonKey(inline=True)] = (
        field(default_factory=dict)
    )
    python: Fact | None = None
    platform: Fact | None = None
    packages: Annotated[
        Mapping[str, str],
        MapOf(FACT, FACT, MOST_PACKAGES, "packages"),
        JsonKey("The versions of the packages that own places, by name."),
    ] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Shard(Described):
    """Which group of how many a run took."""

    group: Group
    of: Group


@dataclass(frozen=True, slots=True)
class SessionReport(Described):
    """What the whole run came to."""

    exit: Annotated[Count | None, JsonKey("The exit code of the run.")] = None
    collected: Annotated[
        int | None,
        number(0),
        JsonKey("Tests that were found, with those that were deselected."),
    ] = None
    deselected: Count = 0
    complete_files: Annotated[
        Names, JsonKey("Test files of which every test was collected and ran.")
    ] = ()
    unmeasured: Annotated[
        Names, JsonKey("Node ids of tests that were to be measured and were not.")
    ] = ()
    stale: Annotated[Names, JsonKey("Node ids of baseline entries whose test is gone.")] = ()
    collected_whole: Annotated[
        Names,
        JsonKey(
            "Files and functions of which every test was collected, also those that were then "
            "deselected.",
            always=False,
        ),
    ] = ()
    deselected_tests: Annotated[
        Names,
        JsonKey("Node ids that were collected and then left out (-k, -m, --splits).", always=False),
    ] = ()
    shard: Annotated[
        Shard | None,
        JsonKey(
            "Which group of how many the run took (pytest-split, pytest-shard); null for all.",
            always=False,
        ),
    ] = None


@dataclass(frozen=True, slots=True)
class Around(Described):
    """What was compiled around a test; ``own`` is what its own fixtures compiled."""

    graphs: Counts = field(default_factory=dict)
    phases: Annotated[
        Mapping[str, Mapping[str, int]],
        MapOf(TextUpTo(), MapOf(LAYER, number(0))),
        JsonKey("The same by phase.", always=False),
    ] = field(default_factory=dict)
    own: Annotated[
        Counts,
        JsonKey(
            "How many of the test's own graphs its fixtures made, before the call; judged with "
            "the test.",
            always=False,
        ),
    ] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Budget(Described):
    """How many graphs a test may make."""

    graphs: Counts = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class TestReport(Described):
    """One test, its last attempt; or a script, or a log, whose path is its ``nodeid``.

    ``changes`` is None where nothing was judged, and in a report of an earlier version.
    """

    __test__: ClassVar = False
    DEFINITION: ClassVar = "test"

    nodeid: Annotated[
        Name, JsonKey("pytest's node id; the path of what is not a test (a script, a log).")
    ]
    outcome: Annotated[
        str, OneOf(OUTCOMES), JsonKey("pytest's word for how the last attempt ended.")
    ]
    failed_by: Annotated[
        Annotated[str, OneOf(("gate", "test"))] | None,
        JsonKey("Who failed it: the gate, the test itself, or nobody."),
    ] = None
    verdict: Annotated[
        str,
        OneOf(VERDICTS),
        JsonKey("What the comparison with the budget says; none where nothing was judged."),
    ] = "none"
    attempts: Annotated[Count, JsonKey("How often the test ran.")] = 1
    record: Annotated[Record, JsonKey(inline=True)] = field(default_factory=Record)
    leaks: Annotated[
        Settings,
        JsonKey(
            "Settings of torch that the call of the test changed and left, with what it left; the "
            "note says whether they were put back."
        ),
    ] = field(default_factory=dict)
    setup: Annotated[
        Around,
        JsonKey(
            "What was compiled around the test, by fixtures of wider scope and in the tear-down; "
            "not judged."
        ),
    ] = field(default_factory=Around)
    baseline: Annotated[
        Recorded | None,
        JsonKey(
            "What the baseline says for this profile; null if it says nothing or was not read."
        ),
    ] = None
    budget: Annotated[
        Budget | None,
        JsonKey("The smaller of baseline and marker, by layer; null without both."),
    ] = None
    cap: Annotated[Cap | None, JsonKey("The marker's cap; null without one.", always=False)] = None
    ungated: Annotated[Text | None, JsonKey("Why the test is not judged; null if it is.")] = None
    message: Annotated[
        Annotated[str, TextUpTo(LONGEST_MESSAGE)] | None,
        JsonKey("The text that the failed test showed; null if the gate did not fail it."),
    ] = None
    unseen: Annotated[
        tuple[LayerName, ...],
        JsonKey("Layers that the budget speaks of and that were not there.", always=False),
    ] = ()
    foreign: Annotated[
        Text | None,
        JsonKey(
            "The profile whose values judged the test, since its own was never recorded; else "
            "null.",
            always=False,
        ),
    ] = None
    written: Annotated[bool, JsonKey("Whether this run recorded the test.", always=False)] = False
    changes: Annotated[
        tuple[Difference, ...] | None,
        JsonKey(
            "What is otherwise than the baseline, the marker or the option allows, totals first; "
            "null where nothing was judged.",
            detail=True,
            always=False,
        ),
    ] = None

    def check(self) -> None:
        """Raise ``BadValue`` where a change is about something that is not there."""
        check_differences(self.changes or (), self.record)


@dataclass(frozen=True, slots=True)
class RunReport(Described):
    """One report: ``name`` tells it apart, ``given`` is the path that was typed.

    They differ where a directory or an archive was named.
    """

    ORDER: ClassVar = ("version", "environment", "session")

    environment: RunEnvironment
    tests: Annotated[
        tuple[TestReport, ...], JsonKey("One item for each test, that of its last attempt.")
    ]
    session: SessionReport = field(default_factory=SessionReport)
    name: Annotated[str, LOCAL] = ""
    given: Annotated[str, LOCAL] = ""

    @property
    def version(self) -> Annotated[int, Checked(check_version, {"const": VERSION}), JsonKey()]:
        return VERSION

    @property
    def profile(self) -> str:
        """What counts are filed under; ``none`` for a log that was read, which says none."""
        return self.environment.profile or "none"

    @property
    def versions(self) -> dict[str, str]:
        """Those of the compilers that were there."""
        return {name: at for name in COMPILERS if (at := self.environment.versions.get(name))}
