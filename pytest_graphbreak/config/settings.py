"""Options and ini keys, resolved into one frozen ``Settings``.

They are those of docs/reference/options.md; the command line wins. Next to nothing
is imported here but pytest, since this runs in every session.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import pytest

from pytest_graphbreak.config.ini import NEW, OPS, percent
from pytest_graphbreak.config.typed import Typed, typed
from pytest_graphbreak.model.layers import BACKENDS, LAYERS

DEVICES: Final = ("auto", *reversed(BACKENDS), "cpu", "cuda")
ISOLATION: Final = ("test", "none")
TT_LOGS: Final = ("headers", "full", "off")
WRITING: Final = ("update", "record", "prune")
MARKERS: Final = (
    f"max_graphs(n, {', '.join(f'{layer}=n' for layer in LAYERS)}, recompiles=n, breaks=n): "
    "fail the test if it makes more graphs (on every layer, or on one), recompiles or breaking "
    "places. Needs no option.",
    "graph_budget(gate=True, isolate=True, reason=''): gate=False takes the test out of the "
    "graph budget, isolate=False leaves the compiler's caches alone before it.",
)


@dataclass(frozen=True, slots=True)
class Settings:
    """What this session was asked to do.

    ``report``, ``trace``, ``directory`` and ``infra`` are absolute. ``profile`` is the user's
    template (``tt-{arch}``) or None where the profile is to be detected; ``arch``
    is what the suite's own option ``--arch`` says, as tt-xla's does. ``typed`` is how
    the session was started, for the commands that texts name.
    """

    root: Path
    directory: Path
    gate: bool = False
    update: bool = False
    record: bool = False
    prune: bool = False
    report: Path | None = None
    trace: Path | None = None
    profile: str | None = None
    device: str = "auto"
    arch: str | None = None
    isolate: bool = True
    strict: bool = False
    new: str = "fail"
    ops: float | None = OPS
    reasons: bool = True
    tt_log: str = "headers"
    jax_device: str = ""
    infra: tuple[str, ...] = ()
    typed: Typed = field(default_factory=Typed)

    @property
    def active(self) -> bool:
        """Whether every test is measured; with a marker, a test is measured in any case."""
        return self.gate or self.report is not None or self.trace is not None

    @property
    def writes(self) -> bool:
        return self.update or self.record or self.prune


def add_options(parser: pytest.Parser) -> None:
    """Declare the options and the ini keys of docs/reference/options.md."""
    group = parser.getgroup("graph-budget", "graph budget: graph counts against baselines")

    def flag(name: str, text: str) -> None:
        # default=None tells "not given" from "given", so that the ini key can speak.
        group.addoption(f"--graph-budget{name}", action="store_true", default=None, help=text)

    def value(name: str, metavar: str, text: str) -> None:
        group.addoption(f"--graph-budget-{name}", metavar=metavar, default=None, help=text)

    flag("", "Check the graphs of every test against its committed baseline.")
    flag("-update", "Record new and changed entries of the tests that ran and passed.")
    flag("-record", "Record missing entries only; judge the others.")
    flag("-prune", "Drop the entries of tests that are gone (complete runs only).")
    value(
        "report",
        "PATH",
        "Write the JSON report. Alone, it counts every test, and judges by markers only.",
    )
    value("trace", "DIR", "Keep torch's structured trace of each test that failed, for tlparse.")
    value("dir", "DIR", "Where baselines live (default: baselines, under the rootdir).")
    value("profile", "NAME", "Name the profile; {device}, {arch} and {torch} are filled in.")
    value("device", "|".join(DEVICES), "Where fixtures compile (default: auto).")

    parser.addini("graph_budget", "As --graph-budget.", type="bool", default=False)
    parser.addini("graph_budget_report", "As --graph-budget-report.", default="")
    parser.addini("graph_budget_dir", "As --graph-budget-dir.", default="baselines")
    parser.addini("graph_budget_profile", "As --graph-budget-profile.", default="")
    parser.addini("graph_budget_device", "As --graph-budget-device.", default="auto")
    parser.addini(
        "graph_budget_isolation",
        "test: each test starts from cold caches; none: caches are left alone.",
        default="test",
    )
    parser.addini(
        "graph_budget_strict",
        "Fail also on verdicts improved and changed, and on stale entries.",
        type="bool",
        default=False,
    )
    parser.addini(
        "graph_budget_new",
        "fail: a test that compiles and has no baseline fails; report: it passes, and is told.",
        default="fail",
    )
    parser.addini(
        "graph_budget_ops",
        "By how many percent captured operations may fall (0: by none); off: they are not judged.",
        default=f"{OPS:g}",
    )
    parser.addini(
        "graph_budget_tt_log",
        "headers: of the TT plugin's log what counting needs is turned on; full: what analysis "
        "needs; off: nothing, and tt graphs are counted through xla.",
        default="headers",
    )
    parser.addini(
        "graph_budget_jax_device",
        "The device whose programs the jax layer counts: a platform of JAX (tt), or one with the "
        "number of a device (cpu:1). What is compiled for others is jax_host's.",
        default="",
    )
    parser.addini(
        "graph_budget_infra",
        "Directories of test infrastructure, one a line, relative to the rootdir: no place is "
        "named in them, but the line that called them.",
        type="linelist",
        default=[],
    )
    parser.addini(
        "graph_budget_reasons",
        "false: xla graphs are counted and not explained, which costs less.",
        type="bool",
        default=True,
    )


def in_ci(environ: Mapping[str, str] = os.environ) -> bool:
    """Whether the environment variable CI is set, and not to empty, ``0`` or ``false``."""
    return environ.get("CI", "").strip().lower() not in ("", "0", "false")


def from_config(config: pytest.Config) -> Settings:
    """Resolve the command line over the ini file.

    Raises ``pytest.UsageError`` where a value is not one of those allowed, or
    where writing was asked for under CI.
    """

    def option(name: str) -> Any:
        return config.getoption(f"graph_budget_{name}", default=None)

    def text(name: str) -> str:
        given = option(name)
        return str(config.getini(f"graph_budget_{name}") if given is None else given)

    update, record, prune = (bool(option(name)) for name in WRITING)
    asked = config.getoption("graph_budget", default=None)
    gate = bool(config.getini("graph_budget") if asked is None else asked)
    device = _one_of(text("device"), DEVICES, "--graph-budget-device (graph_budget_device)")
    isolation = _one_of(
        str(config.getini("graph_budget_isolation")), ISOLATION, "graph_budget_isolation"
    )
    new = _one_of(str(config.getini("graph_budget_new")), NEW, "graph_budget_new")
    try:
        ops = percent(str(config.getini("graph_budget_ops")))
    except ValueError as error:
        raise pytest.UsageError(str(error)) from None
    tt_log = _one_of(str(config.getini("graph_budget_tt_log")), TT_LOGS, "graph_budget_tt_log")
    report = text("report")
    # A relative path on the command line is relative to where it was typed, in
    # the ini file to the rootdir.
    base = config.invocation_params.dir if option("report") is not None else config.rootpath
    trace = option("trace")
    settings = Settings(
        root=config.rootpath,
        directory=config.rootpath / text("dir"),
        gate=gate or update or record or prune,
        update=update,
        record=record,
        prune=prune,
        report=base / report if report else None,
        trace=config.invocation_params.dir / trace if trace else None,
        profile=text("profile") or None,
        device=device,
        arch=config.getoption("arch", default=None) or None,
        isolate=isolation == "test",
        strict=bool(config.getini("graph_budget_strict")),
        reasons=bool(config.getini("graph_budget_reasons")),
        infra=_directories(config),
        new=new,
        ops=ops,
        tt_log=tt_log,
        jax_device=str(config.getini("graph_budget_jax_device")),
        typed=typed(config),
    )
    _refuse_writing_in_ci(settings)
    return settings


def _directories(config: pytest.Config) -> tuple[str, ...]:
    """Those of ``graph_budget_infra``. One that is not there names nothing, and is a mistake."""
    found = []
    for name in config.getini("graph_budget_infra"):
        directory = config.rootpath / name
        if not directory.is_dir():
            raise pytest.UsageError(
                f"graph_budget_infra: {name!r} is no directory under {config.rootpath}"
            )
        found.append(str(directory))
    return tuple(found)


def _one_of(value: str, allowed: tuple[str, ...], name: str) -> str:
    if value not in allowed:
        raise pytest.UsageError(f"{name}: {value!r} is not one of {', '.join(allowed)}")
    return value


def _refuse_writing_in_ci(settings: Settings) -> None:
    if not (settings.writes and in_ci()):
        return
    names = [f"--graph-budget-{name}" for name in WRITING if getattr(settings, name)]
    raise pytest.UsageError(
        f"{', '.join(names)}: baselines are not written where the environment variable CI is "
        f"set. Run with --graph-budget --graph-budget-report=graphs.json, keep graphs.json as "
        f"an artifact, and run `graphbreak accept graphs.json` in a checkout."
    )
