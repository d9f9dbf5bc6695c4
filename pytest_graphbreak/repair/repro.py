"""Writes a script for each break and each cut of torch_xla, runs it, and says whether it shows it.

Of a break, the smallest function that has it is taken out of the running program with its arguments
(a ``CutFunction``). If the break does not occur in a script that calls that function alone, the
function that called it is tried, and in the end the program itself.

A cut of torch_xla is a line at which it ends a graph (a ``lazy.LazyCut``). No function can be taken
out there, so its script always runs the program.

``cli.repro`` makes a ``Repro``, which runs the program once, and shows each ``Script`` that ``run``
yields. ``writing.Writer`` and ``lazy`` return the texts of the scripts; each of them, and the
program, is run in a process of its own by the ``Bench``, which returns the run as a ``Trial``.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import re
import shutil
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path

import msgspec
from msgspec import Struct

from pytest_graphbreak.model.items import Break, Frame
from pytest_graphbreak.model.record import Record
from pytest_graphbreak.repair import lazy
from pytest_graphbreak.repair.target import Target
from pytest_graphbreak.repair.trial import Bench, Trial
from pytest_graphbreak.repair.writing import WHOLE, CutFunction, CutOrder, Writer
from pytest_graphbreak.text import files

MOST_TRIES = 5
"""The number of functions that are tried for one break, from the break outwards."""


class Script(Struct, frozen=True):
    """A script that was written and run, for a break, or for a cut in the form of a break."""

    path: Path
    item: Break
    what: str
    """The function that it calls: ``helper``, or ``the whole program``."""
    verified: bool
    """Whether the same break or cut occurred in its run."""
    why: str = ""
    """Why not. Of a verified script: which smaller functions were tried before, and why these did
    not do."""
    how: str = ""
    """How it comes by what it calls: ``inner of Outer by its path`` (``CutFunction.what``)."""


class Repro:
    """Writes the scripts of one target, which runs as it is when this is made (``first``).

    ``run`` yields the scripts. ``clean`` is called at the end, also if nothing was written.
    """

    def __init__(self, target: Target, bench: Bench, out: Path, *, as_test: bool) -> None:
        self._made = [folder for folder in (out, *out.parents) if not folder.exists()]
        out.mkdir(parents=True, exist_ok=True)
        # Fails now, not after the runs, if nothing can be written there under so long a name.
        files.probe(out / f"{'test_' * as_test}{target.stem}_repro_99999.pt")
        self.first = bench.measure(target, outputs=False)
        self.lazy = lazy.cuts(self.first.record)
        self._target = target
        self._bench = bench
        self._out = out
        self._as_test = as_test
        options = dict(self.first.options)
        self._writer = Writer(target, self.first.device, options, as_test, out)

    def run(self, progress: Callable[[float, float, str], None]) -> Iterator[Script]:
        """Yield one script for each break and each cut, as soon as it has been run.

        ``progress`` is called with how many are done, how many there are, and what comes now.
        """
        breaks, paths = self.first.record.breaks, self._paths()
        if breaks:
            progress(0, 1, "taking the functions out")
        functions = self._taken_out() if breaks else {}
        todos = [(item, partial(self._smallest, item, functions)) for item in breaks]
        todos += [(cut.item, partial(self._lazy_script, cut)) for cut in self.lazy]
        for number, (item, write) in enumerate(todos):
            progress(number, len(todos), f"{item.where.function}: {item.reason}")
            path = next(paths)
            try:
                script = write(path)
            except BaseException:  # a script that was not run to its end
                _remove(path)
                raise
            yield script

    def clean(self) -> None:
        """Remove the directories that were made and are empty."""
        for folder in self._made:
            with contextlib.suppress(OSError):
                folder.rmdir()

    def _taken_out(self) -> dict[str, CutFunction]:
        """Run the program once more, and take out the functions on the stacks of its breaks.

        Each has the key ``net.py\\nNet.forward`` (``_FrameCutter.cuts`` of ``cut``).
        """
        folder = self._bench.directory / "cuts"
        folder.mkdir(exist_ok=True)
        functions = {
            (frame.file, frame.function)
            for item in self.first.record.breaks
            for frame in (*item.stack, item.where)
            if frame.function not in ("", "<module>")
        }
        order = CutOrder(functions=sorted(functions), folder=str(folder))
        answer, _ = self._bench.run(self._target, order)
        return msgspec.convert(answer.get("cuts") or {}, dict[str, CutFunction])

    def _paths(self) -> Iterator[Path]:
        """Yield the paths of the scripts: ``repros/net_repro_1.py``, ``repros/net_repro_2.py``...

        A number is passed over where a file is not ours, or is the script of another target.
        """
        stem = re.sub(r"\W", "_", self._target.stem)
        for number in itertools.count(1):
            path = self._out / f"{'test_' * self._as_test}{stem}_repro_{number}.py"
            data = path.with_suffix(".pt")
            is_free = not any(map(os.path.lexists, (path, data)))
            is_ours = self._writer.has_written(path)
            if is_free or (is_ours and not data.is_symlink()):
                yield path

    def _smallest(self, item: Break, functions: Mapping[str, CutFunction], path: Path) -> Script:
        """Try the functions from the break outwards, and then the program."""
        reasons: list[str] = []
        for frame in _outwards(item)[:MOST_TRIES]:
            key = f"{frame.file}\n{frame.function}"
            cut = functions.get(key, CutFunction(why="it was not called by itself"))
            why: str | None = cut.why
            if not why:
                text = self._writer.cut(item, frame, cut, f"{path.stem}.pt")
                self._write(path, text, cut.file if cut.inline is None else "")
                why = missing(item, self._measure(path))
            if why is None:
                return Script(
                    path,
                    item,
                    what=frame.function,
                    verified=True,
                    why="; ".join(reasons),
                    how=cut.what,
                )
            reasons.append(f"{frame.function}: {why}")
        self._write(path, self._writer.whole(item))
        why = missing(item, self._measure(path))
        if why is not None:
            reasons.append(f"the whole program: {why}")
        return Script(path, item, WHOLE, verified=why is None, why="; ".join(reasons))

    def _lazy_script(self, cut: lazy.LazyCut, path: Path) -> Script:
        """Write the script of what torch_xla cut at a line, and run it."""
        self._write(path, lazy.script(self._writer, cut, self.first.record))
        why = lazy.missing(cut, self._measure(path, lazy.TEST))
        return Script(path, cut.item, WHOLE, verified=why is None, why=why or "")

    def _write(self, path: Path, text: str, data: str = "") -> None:
        """Write a script, and a copy of ``data`` beside it: the file of its inputs, if it has one.

        Those of the previous attempt are removed.
        """
        _remove(path)
        if data:
            shutil.copyfile(data, path.with_suffix(".pt"))
        files.put(path, text.encode())

    def _measure(self, path: Path, test: str = "test_no_break") -> Trial:
        target = Target(path, test if self._as_test else "")
        return self._bench.measure(target, outputs=False)


def _remove(path: Path) -> None:
    """Remove a script and its file of inputs."""
    for file in (path, path.with_suffix(".pt")):
        file.unlink(missing_ok=True)


def _outwards(item: Break) -> list[Frame]:
    """Return the functions around a break, the innermost first, each once."""
    frames = [item.where, *reversed(item.stack)]
    seen: dict[tuple[str, str], Frame] = {}
    for frame in frames:
        if frame.function not in ("", "<module>"):
            seen.setdefault((frame.file, frame.function), frame)
    return list(seen.values())


def _own(function: str) -> str:
    """Return ``f`` of ``main.<locals>.f``: a script may define it in a function, or in none."""
    return function.rpartition("<locals>.")[2]


def missing(item: Break, trial: Trial) -> str | None:
    """Return why the run of a script does not show its break, or None if it does.

    ``lazy.missing`` is the same for a cut, which only an assertion of the script can show.
    """
    if is_in(trial.record, item):
        return None
    if trial.error is not None:
        return f"it fails: {trial.error[:160]}"
    others = ", ".join(dict.fromkeys(shown.reason for shown in trial.record.breaks))
    return f"other breaks came: {others}" if others else "no break came"


def is_in(record: Record, item: Break) -> bool:
    """Return whether a record has a break: the same function, line of source and reason."""
    for shown in record.breaks:
        same_line = " ".join(shown.where.code.split()) == " ".join(item.where.code.split())
        same_name = _own(shown.where.function) == _own(item.where.function)
        # Up to torch 2.11 a branch has an id only in a function that another one called.
        same_id = shown.id == item.id or None in (shown.id, item.id)
        if same_line and same_name and same_id and shown.reason == item.reason:
            return True
    return False
