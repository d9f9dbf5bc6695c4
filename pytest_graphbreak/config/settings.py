"""Options and ini keys, resolved into one frozen ``Settings``.

They are documented in docs/reference/options.md; the command line takes precedence. Little is
imported here except pytest, since this runs in every session.
"""

from __future__ import annotations

import contextlib
import os
from argparse import Namespace
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import pytest
from msgspec import field
from msgspec.structs import replace

from pytest_graphbreak.config.checkout import (
    BASELINES,
    NEW,
    OPS,
    RUNS,
    CheckoutError,
    Rules,
    find_checkout,
    percent,
    refuse_link_out,
)
from pytest_graphbreak.config.typed import GitHubRun, Typed, typed_command
from pytest_graphbreak.model.layers import BACKENDS, LAYERS

# The values of options and ini keys; what they mean is in docs/reference/options.md.
DEVICES: Final = ("auto", *reversed(BACKENDS), "cpu", "cuda")
ISOLATION: Final = ("test", "none")
TT_LOGS: Final = ("headers", "full", "off")
WRITING: Final = ("update", "record", "prune")
"""The options that write baselines: ``--graph-budget-update``."""
MARKERS: Final = (
    f"max_graphs(n, {', '.join(f'{layer}=n' for layer in LAYERS)}, recompiles=n, breaks=n, "
    "executions=n, reads=n, compiled=n): fail the test if it makes more graphs (on every layer, or "
    "on one), recompiles or breaking places, runs them or reads values more often, or compiles "
    "graphs that a cache should have had. Needs no option.",
    "graph_budget(gate=True, isolate=True, reason=''): gate=False takes the test out of the "
    "graph budget, isolate=False leaves the compiler's caches alone before it.",
)


class Settings(Rules, frozen=True):
    """The requests of a session.

    ``report``, ``directory`` and ``infra`` are absolute. ``profile`` is the user's
    template (``tt-{arch}``) or None if the profile is to be detected; ``arch`` is the value of the
    suite's own option ``--arch``, such as tt-xla's. ``typed`` is how the session was started, for
    commands in texts. ``backend`` is the backend that ``torch.compile`` uses, followed by those
    that it replaces.
    """

    root: Path
    directory: Path
    report: Path | None = None
    profile: str | None = None
    device: str = "auto"
    arch: str | None = None
    isolate: bool = True
    backend: tuple[str, ...] = ()
    reasons: bool = True
    tt_log: str = "headers"
    jax_device: str = ""
    infra: tuple[str, ...] = ()
    typed: Typed = field(default_factory=Typed)

    @property
    def active(self) -> bool:
        """Whether every test is measured; a test with a marker is measured in any case."""
        return self.gate or self.report is not None

    @property
    def counts_runs(self) -> bool:
        return self.runs != "off"

    @property
    def writes(self) -> bool:
        return self.update or self.record or self.prune

    def accept(self, run: GitHubRun | None, nodeid: str = "", *, prune: bool = False) -> str | None:
        """Return the command that accepts the counts of this session, or None without a report."""
        if self.report is None:
            return None
        report = str(self.report)
        if self.report.is_relative_to(self.root):
            report = self.typed.path(report)
        return self.typed.accept(report, nodeid=nodeid, run=run, prune=prune)


_FLAGS: Final = {
    "": "Check the graphs of every test against its committed baseline.",
    "-update": "Record new and changed entries of the tests that ran and passed.",
    "-record": "Record missing entries only; compare the others.",
    "-prune": "Drop the entries of tests that no longer exist (complete runs only).",
}
_VALUES: Final = {
    "report": (
        "PATH",
        "Write the JSON report. Without the gate every test is counted, and only markers can fail.",
    ),
    "dir": ("DIR", "Directory of the baselines (default: baselines, under the rootdir)."),
    "profile": ("NAME", "Name the profile; {device}, {arch} and {torch} are filled in."),
    "device": ("|".join(DEVICES), "Where fixtures compile (default: auto)."),
}
"""Options with a value, after ``--graph-budget-``: its name in the help, and the help."""
_INI: Final[Mapping[str, tuple[str | bool | list[str], str]]] = {
    "": (False, "Same as --graph-budget."),
    "_report": ("", "Same as --graph-budget-report."),
    "_dir": (BASELINES, "Same as --graph-budget-dir."),
    "_profile": ("", "Same as --graph-budget-profile."),
    "_device": ("auto", "Same as --graph-budget-device."),
    "_isolation": (
        "test",
        "test: each test starts with empty caches; none: caches are not touched.",
    ),
    "_strict": (False, "Fail also on verdicts improved and changed, and on stale entries."),
    "_new": (
        "fail",
        "fail: a test that compiles and has no baseline fails; report: it passes and is reported.",
    ),
    "_ops": (
        f"{OPS:g}",
        "By how many percent captured operations may fall (0: none); off: they are not compared.",
    ),
    "_runs": (
        "report",
        "report: compiled graphs that run, and values that are read back, more often than was "
        "recorded are shown; fail: they make a test fail; off: they are not counted.",
    ),
    "_backend": (
        "",
        "The backend of torch.compile where none is asked for.",
    ),
    "_tt_log": (
        "headers",
        "What is on of the TT plugin's log: headers, full, off.",
    ),
    "_jax_device": (
        "",
        "The device that the jax layer counts, as tt or cpu:1.",
    ),
    "_infra": (
        [],
        "Directories that are no place of a graph, one a line.",
    ),
    "_reasons": (True, "false: xla graphs are counted, and not explained."),
}
"""Ini keys, after ``graph_budget``: the default, whose type is that of the key, and the help."""
_TYPES: Final[Mapping[type, Any]] = {bool: "bool", list: "linelist", str: None}
"""What pytest calls the types of ini keys."""


def add_options(parser: pytest.Parser) -> None:
    """Declare the options and the ini keys of docs/reference/options.md."""
    group = parser.getgroup("graph-budget", "graph budget: graph counts against baselines")
    # default=None distinguishes "not given" from "given", so that the ini key can apply.
    for name, words in _FLAGS.items():
        group.addoption(f"--graph-budget{name}", action="store_true", default=None, help=words)
    for name, (metavar, words) in _VALUES.items():
        group.addoption(f"--graph-budget-{name}", metavar=metavar, default=None, help=words)
    for name, (default, words) in _INI.items():
        kind = _TYPES[type(default)]
        parser.addini(f"graph_budget{name}", words, type=kind, default=default)


def in_ci(environ: Mapping[str, str] = os.environ) -> bool:
    """Return whether the environment variable CI is set, and not to empty, ``0`` or ``false``."""
    return environ.get("CI", "").strip().lower() not in ("", "0", "false")


_DRY: Final = (  # as pytest stores the options, which has both spellings
    *("collectonly", "setuponly", "setupplan", "showfixtures", "show_fixtures_per_test"),
    *("help", "version", "markers"),
)
"""The options with which pytest runs no test."""


def is_dry(options: Namespace) -> bool:
    """Return whether the run is one in which no test runs, by the options of pytest."""
    return any(getattr(options, name, False) for name in _DRY)


def clear_report(config: pytest.Config, options: Namespace) -> None:
    """Remove the report of an earlier run; raise ``pytest.UsageError`` if it is another file."""
    path = _Asked(config, options).report()
    if path is not None and not is_dry(options):
        from pytest_graphbreak.text.errors import UserError
        from pytest_graphbreak.text.files import take_away

        try:
            take_away(path, "--graph-budget-report: ")
        except UserError as error:
            raise pytest.UsageError(str(error)) from None


class _Asked:
    """Requested values; the command line overrides the ini file. Names are without prefix."""

    def __init__(self, config: pytest.Config, options: Namespace) -> None:
        self._config = config
        self._options = options

    def option(self, name: str) -> Any:
        return getattr(self._options, f"graph_budget_{name}", None)

    def ini(self, name: str) -> Any:
        return self._config.getini(f"graph_budget_{name}")

    def text(self, name: str) -> str:
        option = self.option(name)
        return str(self.ini(name) if option is None else option)

    def choice(self, name: str, allowed: tuple[str, ...]) -> str:
        value, key = self.text(name), f"graph_budget_{name}"
        if value not in allowed:
            label = f"--graph-budget-{name} ({key})" if name in _VALUES else key
            raise pytest.UsageError(f"{label}: {value!r} is not one of {', '.join(allowed)}")
        return value

    def report(self) -> Path | None:
        """Return the path of the report.

        One of the command line is relative to where it was typed, in the ini file to the rootdir.
        """
        path, is_typed = self.text("report"), self.option("report") is not None
        directory = self._config.invocation_params.dir if is_typed else self._config.rootpath
        return directory / path if path else None

    def percent(self, name: str) -> float | None:
        try:
            return percent(self.text(name))
        except ValueError as error:
            raise pytest.UsageError(str(error)) from None


def from_config(config: pytest.Config) -> Settings:
    """Resolve the settings; the command line overrides the ini file.

    Raises ``pytest.UsageError`` if a value is not allowed, or if writing was requested under CI.
    """
    asked = _Asked(config, config.option)
    writes = {name: bool(asked.option(name)) for name in WRITING}
    gate = config.getoption("graph_budget", default=None)
    root = config.rootpath
    directory = root / asked.text("dir")
    settings = Settings(
        root=root,
        directory=directory,
        gate=bool(config.getini("graph_budget") if gate is None else gate) or any(writes.values()),
        **writes,
        report=asked.report(),
        profile=asked.text("profile") or None,
        device=asked.choice("device", DEVICES),
        arch=config.getoption("arch", default=None) or None,
        isolate=asked.choice("isolation", ISOLATION) == "test",
        strict=bool(asked.ini("strict")),
        new=asked.choice("new", NEW),
        ops=asked.percent("ops"),
        reasons=bool(asked.ini("reasons")),
        tt_log=asked.choice("tt_log", TT_LOGS),
        jax_device=asked.text("jax_device"),
        infra=_directories(config),
        runs=asked.choice("runs", RUNS),
        backend=tuple(asked.text("backend").replace(",", " ").split()),
        typed=_typed(config, directory),
    )
    _refuse(settings)
    return settings


def _typed(config: pytest.Config, directory: Path) -> Typed:
    """Return how the session was started; in CI, also where commands on reports find baselines."""
    typed = typed_command(config)
    if not in_ci() or hasattr(config, "workerinput"):
        return typed
    here = config.invocation_params.dir
    with contextlib.suppress(CheckoutError):
        if find_checkout(here).directory.resolve() == directory.resolve():
            return typed
    return replace(typed, baselines=os.path.relpath(directory, here))


def _directories(config: pytest.Config) -> tuple[str, ...]:
    """Return the directories of ``graph_budget_infra``; a missing one is an error."""
    directories = []
    for name in config.getini("graph_budget_infra"):
        directory = config.rootpath / name
        if not directory.is_dir():
            raise pytest.UsageError(
                f"graph_budget_infra: {name!r} is no directory under {config.rootpath}"
            )
        directories.append(str(directory))
    return tuple(directories)


def _refuse(settings: Settings) -> None:
    """Raise ``pytest.UsageError`` for writing in CI, and for baselines outside by a link."""
    if settings.writes and in_ci():
        names = [f"--graph-budget-{name}" for name in WRITING if getattr(settings, name)]
        raise pytest.UsageError(
            f"{', '.join(names)}: baselines are not written where the environment variable CI is "
            f"set. Run with --graph-budget --graph-budget-report=graphs.json, keep graphs.json as "
            f"an artifact, and run `graphbreak accept graphs.json` in a checkout."
        )
    if settings.gate:
        try:
            refuse_link_out(settings.root, settings.directory)
        except CheckoutError as error:
            raise pytest.UsageError(str(error)) from None
