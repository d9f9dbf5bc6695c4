"""``graphbreak doctor``: reports what works on this machine, what does not, and what to do.

Nothing of torch is imported in this process. Tests of the observers run in a process of their own
(``probe``), which may hang or crash.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from pytest_graphbreak.baseline import BaselineError, Baselines
from pytest_graphbreak.cli.check import add_directory
from pytest_graphbreak.cli.messages import say
from pytest_graphbreak.config.checkout import CheckoutError, find
from pytest_graphbreak.config.device import (
    TT_DESCRIBED,
    DeviceError,
    Machine,
    choose,
    this_machine,
    version,
)
from pytest_graphbreak.config.typed import own
from pytest_graphbreak.layers.base import Probe
from pytest_graphbreak.layers.children.runner import runner
from pytest_graphbreak.model.forms import Plain
from pytest_graphbreak.model.layer import Layer, load, minor
from pytest_graphbreak.model.layers import DESCRIPTIONS
from pytest_graphbreak.model.record import Record
from pytest_graphbreak.report.findings import cause_words, decomposition
from pytest_graphbreak.text.output import LEVELS, TextLine, plural
from pytest_graphbreak.watching.measure import Measurement

OK: Final = "ok"
NOTE: Final = "note"
"""Worth knowing, but the gate can run."""
PROBLEM: Final = "PROBLEM"
"""The gate could not run here, or would not see everything that it should."""

OLDEST_TORCH: Final = (2, 6)
OLDEST_JAX: Final = (0, 7, 1)
PROBE: Final = "pytest_graphbreak.cli.doctor:tried"
PATIENCE: Final = 600.0
"""The time for a probe in seconds: the first import of torch on a busy machine is slow."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_directory(parser)


def run(args: argparse.Namespace) -> int:
    """Print each finding as it is found. Returns 1 if the gate could not run here, else 0."""
    found = []
    for finding in examine(args.graph_budget_dir):
        found.append(finding)
        _show(finding)
    problems = sum(finding.state == PROBLEM for finding in found)
    say()
    if problems:
        say(f"the gate could not run here, or not see everything: {plural(problems, 'problem')}")
        return 1
    say("the gate can run here")
    return 0


def _show(finding: CheckResult) -> None:
    head = f"{finding.state:<8} {finding.about:<10} "
    say(TextLine(finding.what, LEVELS[finding.state], head=head))
    if finding.do:
        say(TextLine(finding.do, "advice", indent=20, head="-> ", command=finding.command))


@dataclass(frozen=True, slots=True)
class CheckResult:
    """A line of the report: ``about`` is its first word, ``what`` the finding, ``do`` the step.

    ``command`` is the shell command of this step, printed after it.
    """

    about: str
    state: str
    what: str
    do: str = ""
    command: str = ""


def examine(directory: str | None = None) -> Iterator[CheckResult]:
    """Yield all findings, the most important first. ``directory`` is that of the baselines."""
    here = this_machine()
    yield from packages(here)
    yield from devices(here)
    yield from variables(os.environ)
    yield from baselines(directory)
    for layer in DESCRIPTIONS.values():
        if layer.probe is not None and here.has(layer):
            yield from probed(layer.name, PATIENCE, os.environ)


def packages(here: Machine) -> Iterator[CheckResult]:
    """Yield what is installed, and whether the versions fit together."""
    python = ".".join(map(str, sys.version_info[:3]))
    plugin, pytest = version("pytest-graphbreak"), version("pytest")
    yield CheckResult("python", OK, f"{python}, pytest {pytest}, pytest-graphbreak {plugin}")
    yield from torch_found(version("torch"), needed=not any(map(here.has, DESCRIPTIONS.values())))
    tt, jax = version("pjrt-plugin-tt"), version("jax")
    yield from torch_xla_found(version("torch"), version("torch_xla"), tt, jax)
    yield from jax_found(jax, version("jaxlib"))
    if shutil.which(os.environ.get("CXX", "c++")) is None and shutil.which("g++") is None:
        yield CheckResult(
            "compiler",
            NOTE,
            "no C++ compiler, which torch's inductor needs on the CPU",
            'install g++, or compile with backend="eager" where only graphs are counted',
        )
    forked = version("pytest-forked")
    if forked and pytest and _numbers(pytest) >= (9, 2) and _numbers(forked) <= (1, 7):
        yield CheckResult(
            "forked",
            NOTE,
            f"pytest-forked {forked} does not work with pytest {pytest}: its children cannot "
            "send their reports (marshal refuses the node id)",
            "use pytest below 9.2 where --forked is needed",
        )


def torch_found(torch: str | None, *, needed: bool = True) -> Iterator[CheckResult]:
    """Check that torch is installed and new enough; it may be missing if it is not ``needed``."""
    if torch is None and not needed:
        yield CheckResult("torch", OK, "not installed: the dynamo layer is not there")
    elif torch is None or _numbers(torch) < OLDEST_TORCH:
        what = f"{torch} is too old" if torch else "not installed"
        yield CheckResult("torch", PROBLEM, what, "install torch 2.6 or later")
    else:
        yield CheckResult("torch", OK, torch)


def jax_found(jax: str | None, jaxlib: str | None) -> Iterator[CheckResult]:
    """Check that JAX is installed, complete, and new enough."""
    if jax is None:
        yield CheckResult("jax", OK, "not installed: the jax layer is not there")
    elif _numbers(jax, 3) < OLDEST_JAX:
        yield CheckResult("jax", PROBLEM, f"{jax} is too old", "install jax 0.7.1 or later")
    elif jaxlib is None:
        what = f"{jax} is installed without jaxlib"
        yield CheckResult("jax", PROBLEM, what, f"install jaxlib {jax}")
    else:
        yield CheckResult("jax", OK, f"{jax}, jaxlib {jaxlib}")


def torch_xla_found(
    torch: str | None, xla: str | None, tt: str | None, jax: str | None = None
) -> Iterator[CheckResult]:
    """Check torch_xla and the TT plugin; torch_xla's binary fits only one version of torch."""
    if xla is None:
        yield CheckResult("torch_xla", OK, "not installed: the xla layer is not there")
        if tt is not None and jax is not None:
            yield CheckResult("tt plugin", OK, f"pjrt-plugin-tt {tt}, for jax")
        elif tt is not None:
            yield CheckResult(
                "tt plugin",
                NOTE,
                f"pjrt-plugin-tt {tt} is installed without torch_xla",
                "enter tt-xla's environment: source venv/activate",
            )
        return
    # tt-xla's fork (2.9.0+git...) is built for the torch that tt-xla pins.
    if tt is None and torch is not None and minor(torch) != minor(xla):
        yield CheckResult(
            "torch_xla",
            PROBLEM,
            f"{xla} was built for torch {minor(xla)}, and torch is {torch}",
            f"install torch {minor(xla)}, or torch_xla {minor(torch)}",
        )
    else:
        yield CheckResult("torch_xla", OK, xla)
    if tt is not None:
        yield CheckResult("tt plugin", OK, f"pjrt-plugin-tt {tt}")


def devices(here: Machine) -> Iterator[CheckResult]:
    """Report the devices that fixtures would compile for."""
    found = []
    for asked in ("tt", "xla", "cuda", "cpu"):
        try:
            found.append(choose(asked, None, here).profile)
        except DeviceError:
            continue
    chosen = choose("auto", None, here)
    yield CheckResult("devices", OK, f"{', '.join(found)}; auto takes {chosen.profile}")
    missing = here.tt()
    if here.tt_hardware() and missing:
        yield CheckResult(
            "tt",
            NOTE,
            f"there is a TT device, and not {', '.join(missing)}",
            "in the tt-xla checkout: source venv/activate",
        )
    if chosen.kind == "tt" and chosen.arch == "unknown":
        yield CheckResult(
            "tt",
            NOTE,
            "the model of the TT card is not known, so the profile is tt-unknown",
            "name it with --graph-budget-profile=tt-n150, or by the suite's own --arch",
        )


BLINDING: Final = ("TORCHDYNAMO_DISABLE", "TORCH_COMPILE_DISABLE")
"""Variables that turn Dynamo off if they are ``1``."""

OFF: Final = ("", "0", "f", "false", "n", "no", "off")
"""Values that turn a flag of JAX off."""

SHOWN_VARIABLES: Final = (
    "CI",
    "JAX_COMPILATION_CACHE_DIR",
    "JAX_DISABLE_JIT",
    "JAX_PLATFORMS",
    "PJRT_DEVICE",
    "PT_XLA_DEBUG",
    "PT_XLA_DEBUG_FILE",
    "PT_XLA_DEBUG_LEVEL",
    "TORCHDYNAMO_SUPPRESS_ERRORS",
    "TORCH_LOGS",
    "TTMLIR_RUNTIME_LOGGER_LEVEL",
    "TTXLA_LOGGER_FILE",
    "TTXLA_LOGGER_LEVEL",
    "TT_VISIBLE_DEVICES",
    TT_DESCRIBED,
    "XLA_AUTO_SPMD",
    "XLA_HLO_DEBUG",
    "XLA_USE_EAGER_DEBUG_MODE",
)


def variables(environ: Mapping[str, str]) -> Iterator[CheckResult]:
    """Report the variables that change what can be seen."""
    shown = {name: environ[name] for name in (*BLINDING, *SHOWN_VARIABLES) if name in environ}
    listed = ", ".join(f"{name}={value}" for name, value in shown.items())
    yield CheckResult("variables", OK, listed or "none that matters is set")
    for name in BLINDING:
        if environ.get(name) == "1":
            what = f"{name} is set: Dynamo compiles nothing"
            yield CheckResult("dynamo", PROBLEM, what, f"unset {name}")
    if environ.get("JAX_DISABLE_JIT", "").lower() not in OFF:
        yield CheckResult(
            "jax",
            PROBLEM,
            "JAX_DISABLE_JIT is set: jax.jit compiles nothing, and each operation is a program",
            "unset JAX_DISABLE_JIT",
        )
    if cache := environ.get("JAX_COMPILATION_CACHE_DIR"):
        yield CheckResult(
            "jax",
            NOTE,
            f"programs that JAX finds in {cache} are loaded and not counted: counts depend on it",
            "unset JAX_COMPILATION_CACHE_DIR for the gate, or leave it empty at each run",
        )
    yield from _device_variables(environ)


def _device_variables(environ: Mapping[str, str]) -> Iterator[CheckResult]:
    level = environ.get("TTXLA_LOGGER_LEVEL")
    if level not in (None, "DEBUG", "VERBOSE"):
        yield CheckResult(
            "tt",
            NOTE,
            f"TTXLA_LOGGER_LEVEL is {level}: the TT plugin prints no headers, so tt graphs are "
            "counted through xla",
            "unset it, or set it to DEBUG, to have them counted by the compiler's own log",
        )
    debug = environ.get("PT_XLA_DEBUG_LEVEL", "0") not in ("", "0")
    if debug and not environ.get("PT_XLA_DEBUG_FILE"):
        yield CheckResult(
            "xla",
            NOTE,
            "PT_XLA_DEBUG_LEVEL sends torch_xla's reports to standard error, where they are not "
            "read: causes and places of xla graphs are less exact",
            "unset it, or name a PT_XLA_DEBUG_FILE too",
        )
    described = environ.get(TT_DESCRIBED)
    if described and not Path(described).is_file():
        what = f"{TT_DESCRIBED}: there is no {described}"
        yield CheckResult("tt", PROBLEM, what, "name a .ttsys")


def baselines(directory: str | None) -> Iterator[CheckResult]:
    """Check that the baselines of the checkout can be read."""
    try:
        checkout = find(Path.cwd(), directory)
        known = Baselines(checkout.directory)
        known.check()
    except (BaselineError, CheckoutError) as error:
        yield CheckResult("baselines", PROBLEM, str(error), "fix the file: tests stop with exit 4")
        return
    if not checkout.directory.is_dir():
        what = f"none yet: {checkout.directory} is not there"
        named = [] if directory is None else [f"--graph-budget-dir={directory}"]
        command = own().rerun("--graph-budget-update", *named)
        yield CheckResult("baselines", OK, what, "make it: ", command)
        return
    files, tests = (
        plural(len(known.files()), "file"),
        plural(sum(1 for _ in known.entries()), "test"),
    )
    what = f"{checkout.directory}: {files}, {tests}, all of them readable"
    yield CheckResult("baselines", OK, what)


def probed(layer: str, patience: float, environ: Mapping[str, str]) -> Iterator[CheckResult]:
    """Check what the observer of one layer sees of a small function."""
    seen, remedy = _probe(layer, patience, environ), DESCRIPTIONS[layer].remedy
    if "fault" in seen:
        yield CheckResult(layer, PROBLEM, seen["fault"], remedy)
        return
    for error in seen["errors"]:
        yield CheckResult(layer, PROBLEM, f"could not see: {error}", remedy)
    if seen["saw"] != seen["expected"]:
        what = f"of a small function that makes {seen['expected']} it saw {seen['saw']}"
        yield CheckResult(layer, PROBLEM, what, remedy)
    elif not all(seen["reasons"]):
        what = f"{seen['with']}: saw {seen['saw']}, and not why code was compiled again"
        yield CheckResult(layer, PROBLEM, what, remedy)
    elif not seen["errors"]:
        yield CheckResult(layer, OK, f"{seen['with']}: saw {seen['saw']}, as it should")
    yield CheckResult(layer, NOTE, _internals(seen["probes"]))
    for note in seen["notes"]:
        yield CheckResult(layer, NOTE, note)


def _internals(names: list[str]) -> str:
    """Return a summary of the torch internals that the counting uses."""
    if len(names) == 1:
        return f"looked at {names[0]}"
    modules = dict.fromkeys(".".join(name.split(".")[:2]) for name in names)
    return f"looked at {len(names)} internals of {', '.join(modules)}"


def _probe(layer: str, patience: float, environ: Mapping[str, str]) -> Plain:
    """Run the probe of a layer, and return its answer, or an error as ``fault``."""
    with runner(patience) as work:
        done = work.call(PROBE, {"layer": layer}, environ=environ)
    if done.code is None:
        return {"fault": f"the probe did not come to its end in {patience:.0f} s"}
    if done.answer is not None:
        return done.answer
    reason = (replace(done, out="").last(1) or ["it said nothing"])[0].strip()
    return {"fault": f"the probe ended with exit code {done.code}: {reason}"}


def _numbers(text: str, most: int = 2) -> tuple[int, ...]:
    """Return the version as numbers: ``(2, 13)`` for ``2.13.0+cpu``."""
    parts = text.split("+")[0].split(".")[:most]
    return tuple(int(part) if part.isdigit() else 0 for part in parts)


# Tries one layer's observer on a small function, in a separate process, and returns what it saw.
#
# The answer (``Runner.call``) has what was ``expected``, what it ``saw``, ``with`` what, the
# ``reasons`` of recompiles, the ``probes`` that were used, and the ``errors`` and ``notes`` of
# the observers.


def tried(asked: Plain) -> Plain:
    """Return what the observer of the given ``layer`` sees of its probe, as described above."""
    layer = DESCRIPTIONS[asked["layer"]]
    assert layer.probe is not None
    probe: Probe = load(layer.probe)()
    small = probe.prepare()
    with Measurement(Path.cwd()) as seen:
        small()
    record = seen.close()
    return {
        "expected": probe.expected,
        "saw": _seen(layer, record),
        "with": probe.about(),
        "reasons": [item.reason for item in record.recompile_list],
        "probes": probe.internals(),
        "errors": list(record.errors),
        "notes": [record.note] if record.note else [],
    }


def _seen(layer: Layer, record: Record) -> str:
    """Return the graphs, recompiles and breaks that were seen, as text.

    For example: ``4 graphs = 1 entry + 1 after a break + 2 recompiles, 2 recompiles, 1 break``.
    """
    parts = " + ".join(cause_words(decomposition(layer.name, record))) or "none"
    words = f"{plural(record.graphs.get(layer.name, 0), 'graph')} = {parts}"
    if layer.breaks:
        recompiles = record.recompiles.get(layer.name, 0)
        words += f", {plural(recompiles, 'recompile')}, {plural(len(record.breaks), 'break')}"
    return words
