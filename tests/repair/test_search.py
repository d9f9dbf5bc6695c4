"""The search for patches, on a program whose runs are made up: what is reported of each break."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from pytest_graphbreak.model.record import Break, Frame, Frames, Graph, Record
from pytest_graphbreak.repair import remedies
from pytest_graphbreak.repair.gain import SearchResult
from pytest_graphbreak.repair.patch import Preamble, SourcePatch
from pytest_graphbreak.repair.remedies import breaks
from pytest_graphbreak.repair.search import Search
from pytest_graphbreak.repair.target import Target, parse
from pytest_graphbreak.repair.trial import Trial

LINE = "y = helper(x)"
PATCH = SourcePatch("a patch", (Preamble("_graphbreak_ours = 1"),))


def record(graphs: int, *breaks: tuple[str, str, Path]) -> Record:
    """Breaks by reason, line and file."""
    found = tuple(
        Break("dynamo", reason, Frame(str(path), "f", 2, code)) for reason, code, path in breaks
    )
    return Record(("dynamo",), {"dynamo": graphs}, frames=Frames(3, graphs), breaks=found)


class MadeUp:
    """Runs nothing: the program has three graphs, with the patch two, and what it says of them."""

    runs = 0

    def __init__(self, left: str, reason: str, again: tuple[int, int] = (0, 0)) -> None:
        self._left, self._reason, self._again = left, reason, again

    def measure(self, target: Target, **options: Any) -> Trial:
        self.runs += 1
        before = ("the reason", LINE, target.path)
        line = {"file": "a.py", "line": 1, "function": "f", "code": "f(x)"}
        again = [[{"kind": "batch 3", "why": "a size", **line}] * n for n in self._again]
        if "_graphbreak_ours" not in target.path.read_text():
            return Trial(record(3, before), again=again[0])
        after = record(2, (self._reason, self._left, target.path))
        return Trial(after, again=again[1])

    @contextmanager
    def beside(self, target: Target, data: bytes) -> Iterator[Target]:
        copy = replace(target, path=target.path.with_name("model_trial.py"))
        copy.path.write_bytes(data)
        yield copy


def searched(
    left: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    reason: str = "ours",
    patch: SourcePatch = PATCH,
    again: tuple[int, int] = (0, 0),
) -> SearchResult:
    monkeypatch.setattr(remedies, "for_break", lambda item, trial: iter([patch]))
    path = tmp_path / "model.py"
    path.write_text(f"import torch\n{LINE}\nz = y + 1\n")
    bench: Any = MadeUp(left, reason, again)
    return Search(
        parse(str(path)),
        bench,
        most=9,
        keep_side_effects=False,
        header="",
        say=lambda text: None,
        progress=lambda *args: None,
    ).run()


def test_a_patch_that_breaks_itself_hides_no_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = searched("_graphbreak_ours(y)", tmp_path, monkeypatch)
    assert (found.before, found.after) == (3, 2)
    (problem,) = found.problems
    assert problem.title == "the reason"
    assert problem.kept == [PATCH]
    assert not problem.fixed


def test_what_a_patch_takes_out_of_the_compiler_hides_no_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The call of a function that the patch disabled is a line of the program."""
    leaves = replace(PATCH, leaves=True)
    reason = "Skip inlining `torch.compiler.disable()`d function"
    (problem,) = searched("z = y + 1", tmp_path, monkeypatch, reason, leaves).problems
    assert (problem.title, problem.kept, problem.fixed) == ("the reason", [leaves], False)


def test_a_line_of_the_program_is_a_problem_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = searched("z = y + 1", tmp_path, monkeypatch)
    assert [(one.title, one.fixed) for one in found.problems] == [
        ("the reason", True),
        ("ours", False),
    ]


def test_a_patch_that_is_compiled_for_more_inputs_than_the_program_is_not_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = searched("z = y + 1", tmp_path, monkeypatch, again=(1, 2))
    assert (found.kept, found.source) == ([], None)
    assert [one.why for one in found.problems[0].tried] == [
        "compiled again for 2 other inputs, 1 without it: a size (--assume)"
    ]
    as_often = searched("z = y + 1", tmp_path, monkeypatch, again=(2, 2))
    assert as_often.kept == [PATCH]
    assert as_often.plain is not None
    assert len(as_often.plain.again) == 2


def test_a_compiled_function_is_not_taken_out_of_the_compiler_for_its_caller() -> None:
    """Of a trainer that calls what it compiled: then nothing of it would be compiled."""
    stack = tuple(Frame("a.py", name, 2, "x") for name in ("train", "loss", "helper"))
    item = Break("dynamo", "a reason", stack[-1], stack=stack)
    made = Graph("dynamo", "0/0", "entry", where=Frame("a.py", "loss", 1, "def loss(x):"))
    trial = Trial(structs.replace(record(2), graph_list=(made,)))
    assert [one.function for one in breaks.inside(item, trial)] == ["helper"]
    own = structs.replace(item, where=stack[1], stack=stack[:2])
    assert breaks.inside(own, trial) == []


class Misprinted(MadeUp):
    """Torch compiles the program to one that prints other lines; patched, it prints its own."""

    def __init__(self, uncompiled: str) -> None:
        super().__init__("", "")
        self._uncompiled = uncompiled

    def measure(self, target: Target, **options: Any) -> Trial:
        text = target.path.read_text()
        if "force_eager" in text:
            return Trial(record(0), lines=(self._uncompiled,))
        if "_graphbreak_ours" in text:
            return Trial(record(1), lines=("a text",))
        return Trial(record(3, ("the reason", LINE, target.path)), lines=("a number",))


@pytest.mark.parametrize("uncompiled", ["a text", "another"])
def test_lines_are_those_of_the_uncompiled_program_where_torch_prints_others(
    uncompiled: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("model.py").write_text(f"import torch\ndef f(x):\n    {LINE}\n")
    monkeypatch.setattr(remedies, "for_break", lambda *_: iter([PATCH]))
    bench: Any = Misprinted(uncompiled)
    out = Search(
        parse("model.py"),
        bench,
        most=9,
        keep_side_effects=False,
        header="",
        say=lambda _: None,
        progress=lambda *_: None,
    ).run()
    assert bool(out.kept) is (uncompiled == "a text")
    assert bool(out.prints) is bool(out.kept)
