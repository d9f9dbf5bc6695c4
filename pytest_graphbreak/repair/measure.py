"""Counts what a program compiles, keeps what it gives, and calls it with drawn inputs.

It runs in the process of a trial, where ``child`` calls ``work`` with a ``MeasureOrder``. What
happens, in order:

1. ``child`` runs the target. For the whole script, or the call phase of the test, it opens
   ``_Program.window``, in which observers count, and ``Capture`` records the compiled calls.
2. When the window closes, all is counted. What the program gave is put together, as the
   ``border.Results``: its calls, the objects that it holds (``Reached``), and its files.
3. Its calls are made again, a few times, to see whether they compile more (``Rounds``).
4. They are made with drawn inputs, which the program did not use itself (``Drawing``).
5. The results are saved in the file that the order names, and the counts are the answer.
"""

from __future__ import annotations

import contextlib
import inspect
import os
import sys
import types
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import msgspec
import torch

from pytest_graphbreak import advice, observe
from pytest_graphbreak.model.forms import Plain
from pytest_graphbreak.model.places import places
from pytest_graphbreak.model.record import Record
from pytest_graphbreak.repair.border import Results
from pytest_graphbreak.repair.calls import ENDLESS
from pytest_graphbreak.repair.capture import Capture
from pytest_graphbreak.repair.child import Go, store_error
from pytest_graphbreak.repair.drawing import Drawing
from pytest_graphbreak.repair.objects import Reached
from pytest_graphbreak.repair.surroundings import (
    WrittenFiles,
    inductor_random_as_eager,
    log_lines,
    plain_warnings,
    seed,
    shared_values,
    wait,
)
from pytest_graphbreak.repair.tolerance import is_equal
from pytest_graphbreak.repair.trial import MeasureOrder, Rounds
from pytest_graphbreak.repair.values import Flat, settle

ROUNDS: Final = 4
"""How often the calls of a program are made again, to see whether it is steady."""


def work(ordered: Plain, go: Go) -> Plain:
    """Carry out a ``MeasureOrder``; the answer has fields of a ``Trial``."""
    program = _Program(msgspec.convert(ordered, MeasureOrder))
    seed()  # also for what the import of a test's module makes
    # This includes a test's fixtures and the import of its module, which may call torch.compile.
    with program.capture.install():
        ended = go(program.window)
    sites = _sites(program.answer.get("record") or {})
    return {**program.answer, **ended, "sites": sites}


class _Program:
    """The program of an order while it runs: what it compiles, holds and writes.

    ``window`` is opened once. While it is open, ``capture`` calls ``_note_first`` before the first
    compiled call; ``answer`` is filled in when it closes.
    """

    def __init__(self, order: MeasureOrder) -> None:
        self._order = order
        self.answer: Plain = {}
        self.capture = Capture(
            codegen=order.codegen,
            results=bool(order.results),
            perturbed=order.perturbed,
            sizes_as=order.sizes_as,
            on_first=self._note_first,
        )
        self._files = WrittenFiles()
        self._source = Path(order.path).read_text("utf-8", "replace")
        self._first: dict[str, Flat] = {}
        """All values before the first compiled call, by name."""
        self._environment: dict[str, str] = {}
        """The variables of the environment when the window opened."""
        if order.results:
            inductor_random_as_eager()

    @contextmanager
    def window(self) -> Iterator[None]:
        """Count what is compiled in the block; then save its results."""
        seed()
        start, seen = _sizes_of_output(), None
        self._environment = dict(os.environ)
        if self._order.results:
            self._files.start()
        try:
            with observe() as seen, log_lines() as lines, plain_warnings():
                yield
                wait(pending=False)
        finally:
            if seen is not None:
                self.answer["record"] = seen.record.to_dict()
        output = [*zip(start, _sizes_of_output(), strict=True)]
        self.answer.update(output=output, logged=lines, **_calls(self.capture))
        if self._order.results:
            self.answer.update(self._results())

    def _variables(self) -> dict[str, Any]:
        """Return the variables of the program, without those that Dynamo puts there.

        No source has names like Dynamo's, ``torch_dynamo_resume_in_f_at_7``, not even as a part.
        """
        module = sys.modules["__main__"]
        if self._order.test:  # then ``__main__`` is empty (``child``), and pytest imports the file
            path = os.path.realpath(self._order.path)
            imported = [part for name, part in list(sys.modules.items()) if name != "__main__"]
            files = ((part, getattr(part, "__file__", None) or "") for part in imported)
            same = (part for part, file in files if os.path.realpath(file) == path)
            module = next(same, module)
        return {
            name: value
            for name, value in vars(module).items()
            if name[:2] != "__" and name in self._source
        }

    def _reached(self) -> Reached:
        """Return what the program holds: what its variables and compiled callables lead to."""
        entries = self.capture.entries
        compiled = [
            part for entry in entries for part in (entry.original, entry.args, entry.kwargs)
        ]
        return Reached(self._variables(), compiled)

    def _note_first(self) -> None:
        """Keep what the program holds before its first compiled call."""
        if self._order.results:
            self._first = self._reached().values(weights=False)

    def _results(self) -> Plain:
        """Save what the run gave, make its calls again, and call with drawn inputs."""
        order, capture, variables = self._order, self.capture, self._variables()
        reached = self._reached()
        state = {name: settle(flat) for name, flat in reached.values().items()}
        files = self._files.end()
        results = Results(
            calls=capture.calls(),
            state=state,
            outside=shared_values(self._environment) | files,
            dispensable=self._dispensable(state, variables),
            left_out=self._left_out(reached),
        )
        if capture.has_own_backend:
            # It may note the graphs in a variable, and a patched program has others.
            results.state = {name: flat for name, flat in state.items() if name not in variables}
        rounds = Rounds()
        if order.perturbed:
            results.calls = []  # that they differ is known: does what the program shows differ?
        else:
            rounds = self._rounds()
            drawing = Drawing(capture, order.eager, order.values_only, order.left_out)
            results.drawn = drawing.results(capture.called())
        torch.save(results, order.results)
        endless = [kind for kind, call in results.drawn.items() if call.raised == ENDLESS]
        return {"endless": endless, "rounds": msgspec.to_builtins(rounds)}

    def _left_out(self, reached: Reached) -> list[str]:
        """Return what was not kept, in words."""
        words = [f"the file {name}, which is large" for name in sorted(self._files.left_out)]
        if self.capture.left_out:
            words.append(f"the last {self.capture.left_out} calls, whose results are large")
        return words if reached.complete else [*words, "objects beyond the first 20,000"]

    def _dispensable(self, state: dict[str, Flat], variables: dict[str, Any]) -> list[str]:
        """Return the names of objects that a patched program may lack.

        These are objects that no compiled call has changed, and variables that no function uses.
        """
        used = {
            name
            for part in _codes(compile(self._source, "", "exec", dont_inherit=True))
            for name in part.co_names
        }
        first = self._first
        same = [name for name, flat in state.items() if is_equal(flat, first.get(name, []))]
        return [*same, *(name for name in variables if name in state and name not in used)]

    def _rounds(self) -> Rounds:
        """Make the calls of the program again, and return what each round compiled."""
        rounds = Rounds()
        for _ in range(ROUNDS):
            ended: Plain = {}
            with observe() as seen, store_error(ended):
                self.capture.repeat()
                wait(pending=False)
            record: Record = seen.record
            rounds.graphs.append(record.graphs.get("dynamo", 0))
            eager = [item for item in record.eager if item.layer == "dynamo"]
            rounds.limit += sum(advice.name(item) == "limit" for item in eager)
            rounds.eager += len(eager)
            rounds.raised = ended.get("error", "")
            if rounds.raised:
                break
        return rounds


def _codes(code: types.CodeType, depth: int = 0) -> Iterator[types.CodeType]:
    """Yield the code of all functions of a program, not that of the module and of classes."""
    if depth and code.co_flags & inspect.CO_NEWLOCALS:  # a class has not got the flag
        yield code
    for part in code.co_consts:
        if isinstance(part, types.CodeType):
            yield from _codes(part, depth + 1)


def _calls(capture: Capture) -> Plain:
    """Return what is known about the compiled calls."""
    return {
        "options": capture.options,
        "inductor": capture.inductor,
        "varies": msgspec.to_builtins(capture.varies()),
        "device": _device(),
    }


def _sizes_of_output() -> list[int]:
    """Return the sizes of standard output and of the errors so far, which are files."""
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(ValueError):  # one that the program closed
            stream.flush()
    return [os.fstat(number).st_size for number in (1, 2)]


def _device() -> str:
    """Return the device that torch_xla computes on (``TT``, ``CPU``), or "" without torch_xla."""
    runtime = sys.modules.get("torch_xla.runtime")
    try:
        return str(runtime.device_type() or "") if runtime is not None else ""
    except Exception:
        return ""


def _sites(record: Plain) -> dict[str, list[str]]:
    """Return path and module of the files that breaks are in: ``Trial.sites``, to be patched."""
    namer = places(Path.cwd())
    files = {frame["file"] for item in record.get("breaks", ()) for frame in item["stack"]}
    for key in ("breaks", "eager", "recompile_list"):
        files |= {item["where"]["file"] for item in record.get(key, ()) if item["where"]}
    names = {*map(os.path.basename, files)}  # to look at a thousand modules on disk takes 0.2 s
    sites: dict[str, list[str]] = {}
    for name, module in list(sys.modules.items()):
        path = getattr(module, "__file__", None)
        if isinstance(path, str) and os.path.basename(path) in names and os.path.isfile(path):
            stable = namer.file(path)
            if stable in files and name != "__mp_main__":
                sites.setdefault(stable, [path, name])
    return sites
