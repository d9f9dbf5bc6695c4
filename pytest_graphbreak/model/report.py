"""The JSON report: the results of a run, a script or a log (docs/reference/report.md)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, ClassVar, Final, Literal

from msgspec import Meta, Struct

from pytest_graphbreak.model.budget import Cap, Recorded
from pytest_graphbreak.model.differences import VERDICTS, Difference, check_differences
from pytest_graphbreak.model.forms import (
    OPTIONAL,
    Count,
    Counts,
    Data,
    Fact,
    LayerName,
    Name,
    Runs,
    Settings,
    Text,
    says,
    with_versions,
)
from pytest_graphbreak.model.record import Record
from pytest_graphbreak.model.versions import COMPILERS, STATED

MOST_SHARDS: Final = 10_000
"""The maximum number of groups into which a run may be split."""
MOST_PACKAGES: Final = 1000
LONGEST_PROFILE: Final = 256
"""The bounds of the environment: more packages, or a longer profile, are refused."""
LONGEST_MESSAGE: Final = 200_000
"""Maximum number of characters of a failed test's message; longer ones are cut."""

# pytest's words, and ``crashed`` for a test whose process died.
OUTCOMES: Final = ("passed", "failed", "skipped", "xfailed", "xpassed", "crashed")

if TYPE_CHECKING:  # mypy knows no ``Literal`` of a variable
    from typing import TypeAlias

    Outcome: TypeAlias = str
    FailedBy: TypeAlias = str
    VerdictName: TypeAlias = str
else:
    Outcome, FailedBy, VerdictName = Literal[OUTCOMES], Literal["gate", "test"], Literal[VERDICTS]

Names = tuple[Name, ...]
Group = Annotated[int, Meta(ge=1, le=MOST_SHARDS)]


# The environment is made in three steps: its versions come from the layers, and its keys are
# written in the order of its fields.


class _Device(Data, frozen=True):
    profile: Annotated[
        Annotated[str, Meta(min_length=1, max_length=LONGEST_PROFILE)] | None,
        says("The label under which counts are compared."),
    ] = None
    device: Fact | None = None
    arch: Fact | None = None


if TYPE_CHECKING:
    _Versioned = _Device
else:
    _Versioned = with_versions(_Device, STATED, Fact | None)


class RunEnvironment(_Versioned, frozen=True):
    """Versions and devices of the measurement; None for what is missing or unknown.

    ``profile`` is the label under which counts are compared, ``packages`` are the versions of the
    packages that own places.
    """

    python: Fact | None = None
    platform: Fact | None = None
    packages: Annotated[
        Mapping[Fact, Fact],
        Meta(
            max_length=MOST_PACKAGES,
            description="The versions of the packages that own places, by name.",
        ),
    ] = {}

    @property
    def versions(self) -> dict[str, str | None]:
        """The versions of the packages that the layers name."""
        return {name: getattr(self, name) for name in STATED}


class Shard(Data, frozen=True):
    """Which group a run took, and of how many."""

    group: Group
    of: Group


class SessionReport(Data, frozen=True):
    """The results of a whole run."""

    exit: Annotated[Count | None, says("The exit code of the run.")] = None
    collected: Annotated[
        Count | None, says("Tests that were found, with those that were deselected.")
    ] = None
    deselected: Count = 0
    complete_files: Annotated[
        Names, says("Test files of which every test was collected and ran.")
    ] = ()
    unmeasured: Annotated[
        Names, says("Node ids of tests that were to be measured and were not.")
    ] = ()
    stale: Annotated[Names, says("Node ids of baseline entries whose test is gone.")] = ()
    collected_whole: Annotated[
        Names,
        OPTIONAL,
        says(
            "Files and functions of which every test was collected, also those that were then "
            "deselected."
        ),
    ] = ()
    deselected_tests: Annotated[
        Names, OPTIONAL, says("Node ids that were collected and then left out (-k, -m, --splits).")
    ] = ()
    shard: Annotated[
        Shard | None,
        OPTIONAL,
        says("Which group of how many the run took (pytest-split, pytest-shard); null for all."),
    ] = None


class Around(Data, frozen=True):
    """Counts of what was compiled around a test; ``own`` counts what its own fixtures compiled."""

    graphs: Counts = {}
    phases: Annotated[Mapping[Text, Counts], OPTIONAL, says("The same by phase.")] = {}
    own: Annotated[
        Counts,
        OPTIONAL,
        says(
            "How many of the test's own graphs its fixtures made, before the call; judged with "
            "the test."
        ),
    ] = {}


class Budget(Data, frozen=True):
    """The number of graphs that a test may make."""

    graphs: Counts = {}


class StepCounts(Data, frozen=True):
    """Counts of one step of a ``graph_budget.steps()`` block, by layer."""

    graphs: Counts = {}
    executions: Runs = {}
    reads: Runs = {}


class TestReport(Data, frozen=True):
    """The last attempt of a test; or a script or a log, whose path is its ``nodeid``.

    ``changes`` is None where nothing was judged, and in a report of an earlier version.
    """

    __test__: ClassVar = False

    nodeid: Annotated[
        Name, says("pytest's node id; the path of what is not a test (a script, a log).")
    ]
    outcome: Annotated[Outcome, says("pytest's word for how the last attempt ended.")]
    failed_by: Annotated[
        FailedBy | None, says("Who failed it: the gate, the test itself, or nobody.")
    ] = None
    verdict: Annotated[
        VerdictName,
        says("What the comparison with the budget says; none where nothing was judged."),
    ] = "none"
    attempts: Annotated[Count, says("How often the test ran.")] = 1
    record: Record = Record()
    steps: Annotated[
        tuple[StepCounts, ...],
        OPTIONAL,
        says("What each step of its graph_budget.steps() made and ran, in their order."),
    ] = ()
    leaks: Annotated[
        Settings,
        says(
            "Settings of torch that the call of the test changed and left, with what it left; "
            "the note says whether they were put back."
        ),
    ] = {}
    setup: Annotated[
        Around,
        says(
            "What was compiled around the test, by fixtures of wider scope and in the tear-down; "
            "not judged."
        ),
    ] = Around()
    baseline: Annotated[
        Recorded | None,
        says("What the baseline says for this profile; null if it says nothing or was not read."),
    ] = None
    budget: Annotated[
        Budget | None, says("The smaller of baseline and marker, by layer; null without both.")
    ] = None
    cap: Annotated[Cap | None, OPTIONAL, says("The marker's cap; null without one.")] = None
    ungated: Annotated[Text | None, says("Why the test is not judged; null if it is.")] = None
    message: Annotated[
        Annotated[str, Meta(max_length=LONGEST_MESSAGE)] | None,
        says("The text that the failed test showed; null if the gate did not fail it."),
    ] = None
    unseen: Annotated[
        tuple[LayerName, ...],
        OPTIONAL,
        says("Layers that the budget speaks of and that were not there."),
    ] = ()
    foreign: Annotated[
        Text | None,
        OPTIONAL,
        says(
            "The profile whose values judged the test, since its own was never recorded; else null."
        ),
    ] = None
    written: Annotated[bool, OPTIONAL, says("Whether this run recorded the test.")] = False
    block: Annotated[
        bool,
        OPTIONAL,
        says(
            "Whether a graph_budget block of the test failed it; counts, budget and changes are "
            "then those of the block, and no count of the test."
        ),
    ] = False
    changes: Annotated[
        tuple[Difference, ...] | None,
        OPTIONAL,
        says(
            "What differs from the baseline, the marker or the option, totals first; null where "
            "nothing was judged."
        ),
    ] = None

    def check(self) -> None:
        """Raise ``BadValue`` if something refers to an item or a layer that is not there."""
        self.record.check()
        check_differences(self.changes or (), self.record)


class RunReport(Struct, frozen=True):
    """A report; ``name`` identifies it, and ``path`` is what was typed.

    They differ if a directory or an archive was typed. A run that was not read has no path.
    """

    environment: RunEnvironment
    tests: tuple[TestReport, ...]
    session: SessionReport = SessionReport()
    name: str = ""
    path: str = ""

    @property
    def profile(self) -> str:
        """The profile that counts are filed under; ``none`` for a log, which states none."""
        return self.environment.profile or "none"

    @property
    def versions(self) -> dict[str, str]:
        """The versions of the compilers that were present."""
        versions = {name: getattr(self.environment, name, None) for name in COMPILERS}
        return {name: version for name, version in versions.items() if version}
