"""Runs of a program in processes of their own: what is ordered, and what came of it.

Commands, and what works for them (``Search``, ``Original``, ``Repro``), ask a ``Bench`` for a run.
It sends a ``TargetOrder`` to a new process, where ``child`` runs the target. What ``measure``
answers there becomes a ``Trial``; other orders (``cut``, ``border``, ``exporting``) are answered
with plain data.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec
from msgspec import Struct, field, structs

from pytest_graphbreak.layers.children.runner import Runner, runner
from pytest_graphbreak.model.items import Frame
from pytest_graphbreak.model.record import Record
from pytest_graphbreak.repair.sources import read
from pytest_graphbreak.repair.target import Target


class Site(Struct, frozen=True):
    """The location of a stable file name on this machine: its path and its module."""

    path: Path
    module: str


class Rounds(Struct):
    """What the calls of a program compile when they are made again; no ``graphs`` if they were not.

    ``graphs`` are the new ones of each round. Of all rounds, ``limit`` are the functions at torch's
    recompile limit, ``eager`` what left the compiler. ``raised`` is what ended a round.
    """

    graphs: list[int] = []
    limit: int = 0
    eager: int = 0
    raised: str = ""


class VaryingSizes(Struct, frozen=True):
    """Of one callable the names of its positional parameters, and the dimensions that vary."""

    parameters: list[str]
    dims: dict[str, list[int]]
    """By argument, as ``calls.tensors_of`` names them: ``batch['ids']``."""


class Trial(Struct, frozen=True):
    """The result of a run. ``error`` is why it failed."""

    record: Record
    error: str | None = None
    stack: Sequence[dict[str, Any]] = ()
    """The user's frames that led to the error (``child.user_frames``)."""
    inductor: bool = False
    """Whether inductor compiles something."""
    rounds: Rounds = field(default_factory=Rounds)
    lines: Mapping[str, Sequence[str]] = {}
    """What it printed and logged while measured, by stream."""
    endless: Sequence[str] = ()
    """The drawn inputs for which a call does not end in time."""
    varies: Sequence[VaryingSizes] = ()
    """The sizes that vary from call to call."""
    out: str = ""
    """All that it printed, and its errors."""
    sites: Mapping[str, Site] = {}
    """Where the files of its breaks are, by their names in the record."""
    device: str = ""
    """What torch_xla computes on."""
    options: Mapping[str, Any] = {}
    """Those of the first ``torch.compile``."""
    results: Path | None = None
    """The file of what it gave (``border.Results``)."""

    @property
    def has_results(self) -> bool:
        """Whether it came to an end, be it by an exception of the program."""
        return self.error is None or (self.results is not None and self.results.is_file())

    def source(self, frame: Frame) -> str:
        """Return the text of the file that a frame is in, or "" if it is not known."""
        site = self.sites.get(frame.file)
        try:
            text = read(site.path).text if site is not None else ""
            compile(text, frame.file, "exec", dont_inherit=True)
        except (OSError, ValueError, SyntaxError):
            return ""
        return text

    @property
    def at(self) -> str:
        """The line that an error came from, if it is one of the user's: `` at `line` ``."""
        code = self.stack[-1]["code"] if self.stack else ""
        return f" at `{code[:60]}`" if code else ""


LOG_OF_TORCH: Final = re.compile(r"\[?[DIWEC]\d{4} [\d:.]+ \d+ ")
"""How a line of torch's own log begins: it says what is compiled, not what the program does.

``W1128 10:30:41.093000 4711 torch/_dynamo/convert_frame.py:1125] ...``
"""
_WORK: Final = "pytest_graphbreak.repair.child:work"
"""What the process of a run calls with its order."""
_SHARED: Final = {*Trial.__struct_fields__} - {"record", "sites", "rounds", "varies"}
"""The keys of an answer that a trial has as they are; the others become objects."""


class TargetOrder(Struct, frozen=True, kw_only=True):
    """What a process is to do with a target: ``child`` runs that, a module named ``kind`` the rest.

    ``Bench.run`` fills in all but ``kind`` and ``replaced``.
    """

    kind: str
    path: str = ""
    test: str = ""
    arguments: Sequence[str] = ()
    cwd: str = ""
    replaced: Mapping[str, str] = {}
    """Files of the program, and others that ``child`` reads in their place."""


class MeasureOrder(TargetOrder, frozen=True, kw_only=True):
    """The order to count what a target compiles, and to keep what it gives (``measure``)."""

    kind: str = "measure"
    results: str = ""
    """The file for what the run gives (``border.Results``); without one, graphs alone count."""
    left_out: Sequence[str] = ()
    """The drawn inputs with which the original does not end: they are not called."""
    eager: bool = False
    """Drawn inputs are computed without the compiler."""
    values_only: bool = False
    """Drawn inputs have the sizes of the program's own."""
    codegen: bool = True
    """Inductor generates code."""
    perturbed: bool = False
    """The program gets other results than its calls give, to see whether it shows them."""
    sizes_as: tuple[bool | None, Mapping[str, Sequence[int]]] | None = None
    """``dynamic`` of ``torch.compile``, and the dimensions to mark by argument; None: as it is."""


class Bench:
    """Runs targets in processes of their own. Its files are in the directory of the runner."""

    def __init__(self, runner: Runner) -> None:
        self._runs = 0
        self.directory = runner.directory
        self._runner = runner

    def measure(
        self,
        target: Target,
        *,
        outputs: bool = True,
        original: Trial | None = None,
        new_python: bool = False,
        **options: Any,
    ) -> Trial:
        """Count the target's graphs, and keep its ``outputs`` and those for drawn inputs.

        ``original`` is the run that this is compared with; ``options`` are fields of the order.
        """
        results = self.directory / f"results{self._runs + 1}.pt" if outputs else None
        endless = list(original.endless) if original is not None else []
        order = MeasureOrder(results=str(results or ""), left_out=endless, **options)
        answer, out = self.run(target, order, new_python=new_python)
        sites = answer.get("sites") or {}
        return Trial(
            record=Record.from_dict(answer.get("record") or {}),
            out=out,
            sites={name: Site(Path(path), module) for name, (path, module) in sites.items()},
            results=results,
            rounds=msgspec.convert(answer.get("rounds") or {}, Rounds),
            varies=msgspec.convert(answer.get("varies") or [], list[VaryingSizes]),
            **{name: answer[name] for name in _SHARED & answer.keys()},
        )

    def replacing(self, texts: Mapping[Path, bytes]) -> dict[str, str]:
        """Return the option ``replaced`` for files that have other contents."""
        replaced = {}
        for number, (path, contents) in enumerate(texts.items()):
            replaced[str(path.resolve())] = str(self.directory / f"{number}_{path.name}")
            (self.directory / f"{number}_{path.name}").write_bytes(contents)
        return replaced

    def run(
        self,
        target: Target,
        order: TargetOrder,
        *,
        new_python: bool = False,
    ) -> tuple[dict[str, Any], str]:
        """Carry out an order; return the answer, with ``error`` where the process died or hung.

        The second value is all that was printed.

        With ``new_python`` the process is one; else it is a fork of one that has imported torch,
        unless the program reads the environment itself: torch reads it when it is imported.
        """
        new_python = new_python or b"environ" in target.path.read_bytes()
        self._runs += 1
        filled = structs.replace(
            order,
            path=str(target.path),
            test=target.test,
            arguments=target.arguments,
            cwd=os.getcwd(),
        )
        ended = self._runner.call(_WORK, msgspec.to_builtins(filled), fork=not new_python)
        out = ended.out + ended.err
        if ended.code is None:
            return {"error": f"it did not end within {self._runner.timeout:g} s"}, out
        if ended.answer is None:
            last = (ended.last(1) or ["nothing was printed"])[0]
            return {"error": f"the process ended with {ended.code}: {last[:200]}"}, out
        return ended.answer | {"lines": self._lines(ended.answer)}, out

    def _lines(self, answer: Mapping[str, Any]) -> dict[str, list[str]]:
        """Return what the program wrote while it was measured, by stream."""
        lines = {"the log": answer.get("logged", []), "warnings": answer.get("warnings", [])}
        streams = {"stdout": self._runner.out, "stderr": self._runner.err}
        for (name, file), (start, end) in zip(
            streams.items(), answer.get("output") or (), strict=False
        ):
            text = file.read_bytes()[start:end].decode(errors="replace")
            lines[name] = [line for line in text.splitlines() if not LOG_OF_TORCH.match(line)]
        return lines


@contextlib.contextmanager
def bench(timeout: float) -> Iterator[Bench]:
    """Yield a bench whose directory is removed at the end of the block."""
    with runner(timeout) as processes:
        yield Bench(processes)
