"""What a failure's text needs to know besides the record and its verdict."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from pytest_graphbreak.config.typed import Typed
from pytest_graphbreak.model.record import NOWHERE, Frame
from pytest_graphbreak.model.versions import Versions


@dataclass(frozen=True, slots=True)
class Context:
    """What the text needs to know besides the record and its verdict.

    ``baseline`` is the file as it is shown (``baselines/tests/test_a.yaml``),
    with ``baseline_line`` of the entry; the compilers of ``recorded_versions`` measured it,
    those of ``versions`` are running now. ``typed`` is how pytest was started, ``test`` where
    the test is, ``accept`` the command that accepts where baselines are not written from here:
    in CI, and for a report of another machine; ``not_accepted`` why there is none. ``has_ids``:
    this is where the test ran, with the torch that explains the ids of its breaks. ``packages``
    are the versions of those that own places, now and when they were recorded.
    """

    nodeid: str
    profile: str
    versions: Versions = field(default_factory=dict)
    baseline: str | None = None
    baseline_line: int | None = None
    recorded_profile: str | None = None
    recorded_versions: Versions = field(default_factory=dict)
    accept: str | None = None
    not_accepted: str = ""
    typed: Typed = field(default_factory=Typed)
    has_ids: bool = True
    test: Frame = NOWHERE
    fixtures: Mapping[str, int] = field(default_factory=dict)
    """What of its graphs the test's fixtures made before its call, by layer."""
    packages: Mapping[str, str] = field(default_factory=dict)
    recorded_packages: Mapping[str, str] = field(default_factory=dict)
