"""Runs of a program in processes of their own: what is ordered, and what came of it.

Commands, and what works for them (``Search``, ``Original``, ``Repro``), ask a ``Bench`` for a run.
It sends an order, a ``TargetOrder``, to a new process (``layers.children.runner``). There ``child``
hands it to the module that is its ``kind``, and that answers:

=============  ======================  ==========================================================
kind           order                   answer, as plain data
=============  ======================  ==========================================================
``measure``    ``MeasureOrder``        what the target compiles and gives: ``Bench.measure`` makes a
                                       ``Trial`` of it
``cut``        ``writing.CutOrder``    the functions that scripts of ``repro`` call
``border``     ``CompareOrder`` of     how the results of two trials differ
               ``comparison``
``exporting``  ``TargetOrder``         why ``torch.export`` refuses what the target compiles
=============  ======================  ==========================================================
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
from pytest_graphbreak.model.record import Record
from pytest_graphbreak.repair.sources import read
from pytest_graphbreak.repair.target import Target


class Site(Struct, frozen=True):
    """Where a file is on this machine that a record names, and the module it was imported as."""

    path: Path
    module: str


class Rounds(Struct):
    """What the calls of a program compile when all of them are made again, a few times.

    In a steady program the later rounds make no graph: ``[1, 0, 0, 0]``.
    """

    graphs: list[int] = []
    """The number of new graphs of each round; empty if no call was made again."""
    limit: int = 0
    """The number of functions that reached torch's recompile limit, in all rounds."""
    eager: int = 0
    """The number of places at which code left the compiler, added up over all rounds."""
    raised: str = ""
    """What the last round raised, which ended it, in words."""


class VaryingSizes(Struct, frozen=True):
    """The sizes that vary from call to call of one compiled callable."""

    parameters: list[str]
    """The names of its positional parameters, in their order."""
    dims: dict[str, list[int]]
    """The dimensions that vary, by argument as ``calls.tensors_of`` names it: ``batch['ids']``."""


class Trial(Struct, frozen=True):
    """The result of a run of a target.

    Only of one that was run with ``outputs`` are there ``results``, ``rounds`` and ``endless``.
    """

    record: Record
    """What it compiled; empty if the process died."""
    error: str | None = None
    """What the program raised, or why it did not run, in words."""
    stack: Sequence[dict[str, Any]] = ()
    """The user's frames that led to the error, as plain data (``child.user_frames``)."""
    inductor: bool = False
    """Whether inductor compiles something."""
    rounds: Rounds = field(default_factory=Rounds)
    lines: Mapping[str, Sequence[str]] = {}
    """What it printed and logged while measured, by stream."""
    endless: Sequence[str] = ()
    """The kinds of drawn inputs (``inputs``) with which a call does not end in time."""
    varies: Sequence[VaryingSizes] = ()
    """The sizes that vary from call to call."""
    out: str = ""
    """All that it printed, and its errors."""
    sites: Mapping[str, Site] = {}
    """Where the files of its breaks are, by their names in the record."""
    device: str = ""
    """What torch_xla computes on."""
    options: Mapping[str, Any] = {}
    """The options of the first ``torch.compile``, with None for an object (``Capture.options``)."""
    results: Path | None = None
    """The file of what it gave (``border.Results``)."""

    @property
    def has_results(self) -> bool:
        """Whether it came to its end, or to an exception of the program, and saved its results."""
        return self.error is None or (self.results is not None and self.results.is_file())

    def source(self, file: str) -> str:
        """Return the text of a file that a record names, or "" if it is not known or no Python."""
        site = self.sites.get(file)
        try:
            text = read(site.path).text if site is not None else ""
            compile(text, file, "exec", dont_inherit=True)
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
"""The keys of the answer of ``measure`` that a trial has as they are; the others become objects."""


class TargetOrder(Struct, frozen=True, kw_only=True):
    """What a process is to do with a target, as plain data; a ``kind`` may add fields.

    ``Bench.run`` fills in the fields that say what the target is and where it runs.
    """

    kind: str
    """The module of this room that carries it out."""
    path: str = ""
    test: str = ""
    arguments: Sequence[str] = ()
    cwd: str = ""
    replaced: Mapping[str, str] = {}
    """Paths of the program's files, and of patched copies that ``child`` reads in their place."""


class MeasureOrder(TargetOrder, frozen=True, kw_only=True):
    """The order to count what a target compiles, and to keep what it gives (``measure``).

    Drawn inputs are those that the program did not use itself (``inputs``).
    """

    kind: str = "measure"
    results: str = ""
    """The file for what the run gives (``border.Results``); without one, graphs alone count."""
    left_out: Sequence[str] = ()
    """The drawn inputs with which the original does not end: they are not called."""
    eager: bool = False
    """The calls with drawn inputs are made without the compiler."""
    values_only: bool = False
    """Drawn inputs have the sizes of the program's own."""
    codegen: bool = True
    """Inductor generates code."""
    perturbed: bool = False
    """The program gets other results than its calls give, to see whether it shows them."""
    sizes_as: tuple[bool | None, Mapping[str, Sequence[int]]] | None = None
    """``dynamic`` of each ``torch.compile``, and the dimensions to mark as dynamic, by argument.

    ``(None, {"x": [0]})`` is torch's own choice, with the first dimension of ``x`` marked. None
    leaves all to the program.
    """


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
        """Run a target and count its graphs.

        With ``outputs`` what it gives is kept, and it is called with drawn inputs, but for those
        with which ``original``, the run that this is compared with, does not end. ``options`` are
        fields of ``MeasureOrder``.
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
        """Write other contents of files; return the option ``replaced``, by which they are read."""
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
        """Carry out an order; return the answer, and all that was printed.

        The answer has only an ``error`` where the process died or hung.

        With ``new_python`` the process is a new Python; else it is a fork of one that has imported
        torch, which begins at once.
        """
        # A program that sets the environment may mean torch, which reads it when it is imported.
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
