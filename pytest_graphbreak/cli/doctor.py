"""``graphbreak doctor``: reports what works on this machine, what does not, and what to do.

Nothing of torch is imported in this process. Tests of the observers run in a process of their own
(``probe``), which may hang or crash.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final, NamedTuple

from msgspec import Struct
from msgspec.structs import asdict, replace

from pytest_graphbreak.cli.messages import say
from pytest_graphbreak.config import device
from pytest_graphbreak.config.device import TT_DESCRIBED, DeviceError, Machine
from pytest_graphbreak.config.packages import version
from pytest_graphbreak.layers import load
from pytest_graphbreak.layers.children.runner import runner
from pytest_graphbreak.layers.protocol import Probe
from pytest_graphbreak.measuring.measure import Measurement
from pytest_graphbreak.model.forms import Plain
from pytest_graphbreak.model.layers import DESCRIPTIONS, Layer
from pytest_graphbreak.model.record import Record
from pytest_graphbreak.model.versions import minor
from pytest_graphbreak.report.counts import cause_words, decomposition
from pytest_graphbreak.text.numbers import plural
from pytest_graphbreak.text.output import LEVELS, TextLine

OK: Final = "ok"
NOTE: Final = "note"
"""Worth knowing, but the gate can run."""
PROBLEM: Final = "PROBLEM"
"""The gate could not run here, or would not see everything that it should."""

OLDEST_TORCH: Final = "2.9"
OLDEST_JAX: Final = "0.7.1"
PROBE: Final = "pytest_graphbreak.cli.doctor:run_probe"
PATIENCE: Final = 600.0
"""The time for a probe in seconds: the first import of torch on a busy machine is slow."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """There are none."""


def run(_: argparse.Namespace) -> int:
    """Print each finding as it is found. Returns 1 if the gate could not run here, else 0."""
    findings = []
    for finding in examine():
        findings.append(finding)
        _show(finding)
    problems = sum(finding.state == PROBLEM for finding in findings)
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
        say(TextLine(finding.do, "advice", indent=20, head="-> "))


class CheckResult(Struct, frozen=True):
    """A line of the report: ``about`` is its first word, ``what`` the finding, ``do`` the step."""

    about: str
    state: str
    what: str
    do: str = ""


def examine() -> Iterator[CheckResult]:
    """Yield all findings, the most important first."""
    here = device.this_machine()
    yield from packages(here)
    yield from devices(here)
    yield from variables(os.environ)
    for layer in DESCRIPTIONS.values():
        if layer.probe is not None and here.has(layer):
            yield from probe_results(layer.name, PATIENCE, os.environ)


def packages(here: Machine) -> Iterator[CheckResult]:
    """Yield what is installed, and whether the versions fit together."""
    python = ".".join(map(str, sys.version_info[:3]))
    plugin, pytest = version("pytest-graphbreak"), version("pytest")
    torch, xla, tt, jax = map(version, ("torch", "torch_xla", "pjrt-plugin-tt", "jax"))
    yield CheckResult("python", OK, f"{python}, pytest {pytest}, pytest-graphbreak {plugin}")
    # A machine that can count any layer, such as that of JAX, can do without torch.
    has_a_layer = any(map(here.has, DESCRIPTIONS.values()))
    yield package("torch", torch, OLDEST_TORCH, "dynamo", needed=not has_a_layer)
    yield from torch_xla(torch, xla, tt, jax)
    yield package("jax", jax, OLDEST_JAX, "jax")


def package(
    name: str, installed: str | None, oldest: str, layer: str, *, needed: bool = False
) -> CheckResult:
    """Check that a package is new enough; it may be missing if it is not ``needed``."""
    if installed is None and not needed:
        return CheckResult(name, OK, f"not installed: the {layer} layer is not there")
    if installed is not None and _numbers(installed) >= _numbers(oldest):
        return CheckResult(name, OK, installed)
    what = f"{installed} is too old" if installed else "not installed"
    return CheckResult(name, PROBLEM, what, f"install {name} {oldest} or later")


def _numbers(text: str) -> tuple[int, ...]:
    """Return the version as numbers: ``(2, 13, 0)`` for ``2.13.0+cpu``."""
    return tuple(int(part) for part in re.findall(r"\d+", text.partition("+")[0])[:3])


def torch_xla(
    torch: str | None, xla: str | None, tt: str | None, jax: str | None = None
) -> Iterator[CheckResult]:
    """Check torch_xla and the TT plugin; torch_xla's binary fits only one version of torch."""
    if xla is None:
        yield CheckResult("torch_xla", OK, "not installed: the xla layer is not there")
    # With the TT plugin it is tt-xla's fork (2.9.0+git...), built for the torch that tt-xla pins:
    # its number is not compared.
    elif tt is None and torch is not None and minor(torch) != minor(xla):
        what = f"{xla} was built for torch {minor(xla)}, and torch is {torch}"
        step = f"install torch {minor(xla)}, or torch_xla {minor(torch)}"
        yield CheckResult("torch_xla", PROBLEM, what, step)
    else:
        yield CheckResult("torch_xla", OK, xla)
    if tt is not None and xla is None and jax is None:
        what = f"pjrt-plugin-tt {tt} is installed without torch_xla"
        yield CheckResult(
            "tt plugin", NOTE, what, "enter tt-xla's environment: source venv/activate"
        )
    elif tt is not None:
        yield CheckResult("tt plugin", OK, f"pjrt-plugin-tt {tt}")


def devices(here: Machine) -> Iterator[CheckResult]:
    """Report the devices that fixtures would compile for."""
    profiles = []
    for asked in ("tt", "xla", "cuda", "cpu"):
        try:
            profiles.append(device.choose(asked, machine=here).profile)
        except DeviceError:
            continue
    chosen = device.choose("auto", machine=here)
    yield CheckResult("devices", OK, f"{', '.join(profiles)}; auto takes {chosen.profile}")
    missing = here.missing_for_tt()
    if here.tt_hardware() and missing:
        what = f"there is a TT device, and not {', '.join(missing)}"
        yield CheckResult("tt", NOTE, what, "in the tt-xla checkout: source venv/activate")
    if chosen.kind == "tt" and chosen.arch == "unknown":
        what = "the model of the TT card is not known, so the profile is tt-unknown"
        yield CheckResult("tt", NOTE, what, "name it with --graph-budget-profile=tt-n150")


class BadVariable(NamedTuple):
    """A variable of the environment that changes what can be seen.

    It does not with one of the values ``harmless``, nor where the variable ``unless`` is set.
    """

    name: str
    about: str
    state: str
    what: str
    do: str = "unset it"
    harmless: tuple[str, ...] = ("", "0", "f", "false", "n", "no", "off")
    unless: str = ""


_DYNAMO_OFF: Final = "Dynamo compiles nothing"
_NO_JIT: Final = "jax.jit compiles nothing, and each operation is a program"
_NO_HEADERS: Final = "the TT plugin prints no headers, so tt graphs are counted through xla"
_PRECOMPILED: Final = "the graphs of precompiled packages cannot be counted"
_CACHED: Final = "programs that JAX finds there are loaded and not counted"
_NO_REPORTS: Final = "torch_xla's reports are not read on standard error: places are less exact"
VARIABLES: Final = (
    BadVariable("TORCHDYNAMO_DISABLE", "dynamo", PROBLEM, _DYNAMO_OFF),
    BadVariable("TORCH_COMPILE_DISABLE", "dynamo", PROBLEM, _DYNAMO_OFF),
    BadVariable("TORCH_CACHING_PRECOMPILE", "dynamo", PROBLEM, _PRECOMPILED),
    BadVariable("JAX_DISABLE_JIT", "jax", PROBLEM, _NO_JIT),
    BadVariable("JAX_COMPILATION_CACHE_DIR", "jax", NOTE, _CACHED, "unset it for the gate", ("",)),
    BadVariable("TTXLA_LOGGER_LEVEL", "tt", NOTE, _NO_HEADERS, harmless=("DEBUG", "VERBOSE")),
    BadVariable(
        "PT_XLA_DEBUG_LEVEL",
        "xla",
        NOTE,
        _NO_REPORTS,
        "unset it, or name a PT_XLA_DEBUG_FILE too",
        unless="PT_XLA_DEBUG_FILE",
    ),
)
SHOWN: Final = (
    *("CI", "JAX_PLATFORMS", "PJRT_DEVICE", "PT_XLA_DEBUG_FILE", "TORCH_LOGS"),
    *("TTXLA_LOGGER_FILE", "TT_VISIBLE_DEVICES", TT_DESCRIBED),
)
"""Variables that are good to know."""


def variables(environ: Mapping[str, str]) -> Iterator[CheckResult]:
    """Report the variables that change what can be seen."""
    names = (*(bad.name for bad in VARIABLES), *SHOWN)
    listed = ", ".join(f"{name}={environ[name]}" for name in names if name in environ)
    yield CheckResult("variables", OK, listed or "none that matters is set")
    for bad in VARIABLES:
        value = environ.get(bad.name)
        if value is None or value in bad.harmless or value.lower() in bad.harmless:
            continue
        if bad.unless and environ.get(bad.unless):
            continue
        yield CheckResult(bad.about, bad.state, f"{bad.name} is {value}: {bad.what}", bad.do)
    path = environ.get(TT_DESCRIBED)
    if path and not Path(path).is_file():
        yield CheckResult("tt", PROBLEM, f"{TT_DESCRIBED}: there is no {path}", "name a .ttsys")


class SmallFunction(Struct):
    """What the observer of a layer saw of its probe, a small function (``run_probe``).

    ``expected`` and ``saw`` are graphs in words, ``about`` names what compiled, ``reasons`` are
    those of recompiles, ``errors`` and ``notes`` of the observers.
    """

    expected: str
    saw: str
    about: str
    reasons: list[str]
    errors: list[str]
    notes: list[str]


def probe_results(layer: str, patience: float, environ: Mapping[str, str]) -> Iterator[CheckResult]:
    """Check what the observer of one layer sees of a small function."""
    seen, remedy = _probe(layer, patience, environ), DESCRIPTIONS[layer].remedy
    if isinstance(seen, str):
        yield CheckResult(layer, PROBLEM, seen, remedy)
        return
    for error in seen.errors:
        yield CheckResult(layer, PROBLEM, f"could not see: {error}", remedy)
    if seen.saw != seen.expected:
        what = f"of a small function that makes {seen.expected} it saw {seen.saw}"
        yield CheckResult(layer, PROBLEM, what, remedy)
    elif not all(seen.reasons):
        what = f"{seen.about}: saw {seen.saw}, and not why code was compiled again"
        yield CheckResult(layer, PROBLEM, what, remedy)
    elif not seen.errors:
        yield CheckResult(layer, OK, f"{seen.about}: saw {seen.saw}, as it should")
    for note in seen.notes:
        yield CheckResult(layer, NOTE, note)


def _probe(layer: str, patience: float, environ: Mapping[str, str]) -> SmallFunction | str:
    """Run the probe of a layer in a process of its own; return why it did not end as a text."""
    with runner(patience) as work:
        done = work.call(PROBE, {"layer": layer}, environ=environ)
    if done.code is None:
        return f"the probe did not come to its end in {patience:.0f} s"
    if done.answer is not None:
        return SmallFunction(**done.answer)
    errors = replace(done, out="")  # what a probe prints is no reason
    reason = (errors.last(1) or ["it said nothing"])[0].strip()
    return f"the probe ended with exit code {done.code}: {reason}"


def run_probe(asked: Plain) -> Plain:
    """Run the probe of ``layer`` in this process; return a ``SmallFunction`` as plain types.

    ``Runner.call`` calls it, by its name (``PROBE``).
    """
    layer = DESCRIPTIONS[asked["layer"]]
    assert layer.probe is not None
    probe: Probe = load(layer.probe)()
    small = probe.prepare()
    with Measurement(Path.cwd()) as seen:
        small()
    record = seen.close()
    return asdict(
        SmallFunction(
            expected=probe.expected,
            saw=_totals(layer, record),
            about=probe.about(),
            reasons=[item.reason for item in record.recompile_list],
            errors=list(record.errors),
            notes=[record.note] if record.note else [],
        )
    )


def _totals(layer: Layer, record: Record) -> str:
    """Return the graphs, recompiles and breaks that were seen, as text.

    For example: ``4 graphs = 1 entry + 1 after a break + 2 recompiles, 2 recompiles, 1 break``.
    """
    parts = " + ".join(cause_words(decomposition(layer.name, record))) or "none"
    words = f"{plural(record.graphs.get(layer.name, 0), 'graph')} = {parts}"
    if layer.breaks:
        recompiles = record.recompiles.get(layer.name, 0)
        words += f", {plural(recompiles, 'recompile')}, {plural(len(record.breaks), 'break')}"
    return words
