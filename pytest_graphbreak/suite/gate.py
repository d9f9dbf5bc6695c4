"""The gate of one pytest session: its settings, device, profile and baselines."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterable
from contextlib import ExitStack
from functools import cached_property
from typing import TYPE_CHECKING, Final

import pytest

from pytest_graphbreak.config.settings import Settings
from pytest_graphbreak.suite.collection import file_of, is_asked_whole
from pytest_graphbreak.suite.markers import canonical, is_counted, is_limited
from pytest_graphbreak.text.files import display_path

if TYPE_CHECKING:
    from pytest_graphbreak.baseline import Baselines
    from pytest_graphbreak.config.device import Device

GATE: Final = pytest.StashKey["Gate"]()

_IN_TESTS: Final = (
    "measuring.compile_model",
    "measuring.graph_budget",
    "report.unjudged",
    "suite.phases",
)
"""Modules that are needed first where a test is measured, judged or told of."""


class Gate:
    """The gate of one pytest session.

    ``plugin`` makes it of the options, and calls in this order:

    - before the collection ``name_jax_device``, then by ``session.register`` ``check`` and
      ``check_directory``, then ``log_tt_if_counted`` and ``choose_backend``;
    - after it ``log_tt_if_counted``, ``follow``, ``read`` and ``warm``;
    - for each test ``measures``, ``counts`` and ``fault``;
    - after the last test ``check_baselines``, by ``session.Session``.

    Device, profile and baselines are looked up when they are first needed, so that a session that
    measures nothing pays for none of them.
    """

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self._logs_tt = False
        """Whether the log of the TT plugin is on already."""

    @cached_property
    def device(self) -> Device:
        """The device on which fixtures compile. Raises ``DeviceError`` if it is not available."""
        from pytest_graphbreak.config.device import choose

        return choose(self.settings.device, self.settings.arch)

    @cached_property
    def profile(self) -> str:
        """The profile that counts are filed under.

        Raises ``DeviceError`` for a template that cannot be filled in.
        """
        from pytest_graphbreak.config.device import profile_name

        name = profile_name(self.settings.profile, self.device)
        if not self.settings.backend:
            return name
        # Counts of another backend are not silently compared with those of the default one.
        return f"{name}-{self.settings.backend[0]}"

    @cached_property
    def baselines(self) -> Baselines:
        """The baselines, read when the first test needs them."""
        from pytest_graphbreak.baseline import Baselines

        return Baselines(self.settings.directory)

    def check(self) -> None:
        """Check that the gate can work, before any test is collected.

        Raises ``pytest.UsageError`` for a device that is not available, or a profile that cannot be
        named.
        """
        from pytest_graphbreak.config.device import DeviceError

        try:
            _ = self.profile  # it is looked up here, and so is the device
        except DeviceError as error:
            raise pytest.UsageError(str(error)) from None

    def check_directory(self) -> None:
        """Check that there are baselines to compare with, or that this run makes them.

        Raises ``pytest.UsageError``: a directory that a checkout left out would make every test a
        new one, which ``graph_budget_new = report`` passes.
        """
        from pytest_graphbreak.baseline.model import BaselineError
        from pytest_graphbreak.baseline.store import refuse_file

        settings = self.settings
        if not settings.gate:
            return
        try:
            refuse_file(settings.directory)
        except BaselineError as error:
            raise pytest.UsageError(str(error)) from None
        if settings.update or settings.record or settings.directory.is_dir():
            return
        name = display_path(settings.directory, settings.root)
        record = settings.typed.rerun("--graph-budget-record")
        raise pytest.UsageError(
            f"{name} is not there, so no test can be compared with a baseline. If this checkout "
            f"left it out, add it. To make the first baselines: {record}; in CI, "
            "--graph-budget-report=graphs.json in place of --graph-budget, and then `graphbreak "
            "accept graphs.json` in a checkout. Markers and blocks need no --graph-budget."
        )

    def check_baselines(self, config: pytest.Config, items: Iterable[pytest.Item] = ()) -> None:
        """Read the baselines of these tests, and of all test files that were requested as a whole.

        Raises ``BaselineError`` for those that cannot be read.
        """
        files = {file_of(canonical(item)) for item in items}
        self.baselines.check(lambda file: file in files or is_asked_whole(config, file))

    def read(self, config: pytest.Config, items: Iterable[pytest.Item]) -> None:
        """Read the baselines like ``check_baselines``, before any test runs.

        Raises ``pytest.UsageError``. This is not for an xdist worker, which runs only some of the
        tests and reads a file before its first test.
        """
        from pytest_graphbreak.baseline.model import BaselineError

        try:
            self.check_baselines(config, items)
        except BaselineError as error:
            raise pytest.UsageError(str(error)) from None

    def fault(self, item: pytest.Item) -> str:
        """Return the error in the baseline file of a measured test, or an empty string."""
        from pytest_graphbreak.baseline.model import BaselineError

        try:
            if self.settings.gate and self.measures(item):
                self.baselines.entry(canonical(item))
        except BaselineError as error:
            # An error without a path is of a test that can have no file, since it is outside of
            # the rootdir; ``suite.judging`` says so if it compiles something.
            return str(error) if error.path is not None else ""
        return ""

    def measures(self, item: pytest.Item) -> bool:
        """Return whether this test is measured: all are, or it has limits of its own."""
        return self.settings.active or is_limited(item)

    def counts(self, item: pytest.Item) -> bool:
        """Return whether graphs of this test are counted: it is measured, or has its own blocks."""
        return self.settings.active or is_counted(item)

    def follow(self, config: pytest.Config, items: Iterable[pytest.Item]) -> None:
        """Follow processes that are started between windows, if any of ``items`` opens a window.

        A server of the session may be started by a test that is not measured, or by a fixture
        before the block that counts its compilations. If every test is measured, there is a window
        around each of them.
        """
        if self.settings.active or not any(map(is_counted, items)):
            return
        from pytest_graphbreak.measuring.measure import follow

        # Entered here, and left by pytest's clean-up.
        following = ExitStack()
        following.enter_context(follow(self.settings.root))
        config.add_cleanup(following.close)

    def warm(self, config: pytest.Config) -> None:
        """Do what has to be done once, before the first test and not in a forked child.

        A test may have finders of its own, or a file system, while it is judged, and may remove
        modules of this package from ``sys.modules``, where types look up names.
        """
        from pytest_graphbreak.advice import reasons, triage
        from pytest_graphbreak.layers import observers
        from pytest_graphbreak.model.report import TestReport

        TestReport.from_dict({"nodeid": "-", "outcome": "passed"})
        reasons.families()
        triage.kinds()
        observers()
        for name in _IN_TESTS:
            importlib.import_module(f"pytest_graphbreak.{name}")
        if "torch" in sys.modules and config.getoption("forked", default=False):
            importlib.import_module("torch._dynamo")

    def name_jax_device(self, config: pytest.Config) -> None:
        """Set the device that the jax layer counts for, also for child processes.

        Raises ``pytest.UsageError`` for a name that is no device.
        """
        from pytest_graphbreak.layers.jax.device import name_device

        try:
            config.add_cleanup(name_device(self.settings.jax_device))
        except ValueError as error:
            raise pytest.UsageError(f"graph_budget_jax_device: {error}") from None

    def choose_backend(self, config: pytest.Config) -> None:
        """Make ``torch.compile`` use another backend until the end of the session.

        ``settings.backend`` is that backend, followed by the backends that it replaces.
        """
        from pytest_graphbreak.measuring.backend import Backend

        name, *instead_of = self.settings.backend
        backend = Backend(name, tuple(instead_of))
        backend.attach()
        config.add_cleanup(backend.detach)

    def log_tt_if_counted(self, config: pytest.Config, items: Iterable[pytest.Item] = ()) -> None:
        """Turn on the log of the TT plugin until the end of the session, if tests may use TT.

        This has to happen before the plugin is loaded, since it then reads its variables. Unless an
        option asks for it, it happens only if a test of ``items`` is to be counted.
        """
        if not self._logs_tt and (self.settings.active or any(map(is_counted, items))):
            self.log_tt(config)

    def log_tt(self, config: pytest.Config) -> None:
        """Turn on the log like ``log_tt_if_counted``, for a test that is certainly counted."""
        from pytest_graphbreak.config.device import runs_tt

        if not self._logs_tt and runs_tt(self.settings.device):
            from pytest_graphbreak.layers.tt.variables import turn_on

            config.add_cleanup(turn_on(self.settings.tt_log))
            self._logs_tt = True
