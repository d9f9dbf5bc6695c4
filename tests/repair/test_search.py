"""The search for patches, on a program whose runs are made up: what is reported of each break."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from pytest_graphbreak.model.record import Break, Frame, Frames, Record
from pytest_graphbreak.repair import remedies
from pytest_graphbreak.repair.comparison import Comparison
from pytest_graphbreak.repair.outcome import SearchResult
from pytest_graphbreak.repair.patch import Preamble, SourcePatch
from pytest_graphbreak.repair.search import Search
from pytest_graphbreak.repair.target import Target, parse
from pytest_graphbreak.repair.trial import Trial

pytestmark = pytest.mark.pure

LINE = "y = helper(x)"
PATCH = SourcePatch("a patch", (Preamble("_graphbreak_ours = 1"),))


def record(graphs: int, *breaks: tuple[str, str, Path]) -> Record:
    """Breaks by reason, line and file."""
    found = tuple(
        Break("dynamo", reason, Frame(str(path), "f", 2, code)) for reason, code, path in breaks
    )
    return Record(("dynamo",), {"dynamo": graphs}, frames=Frames(3, graphs), breaks=found)


class MadeUp:
    """Runs nothing: the program has three graphs and a break; ``after`` is its patched record."""

    runs = 0

    def __init__(self, after: tuple[str, str], graphs: int) -> None:
        self._after, self._graphs = after, graphs

    def measure(self, target: Target, **options: Any) -> Trial:
        self.runs += 1
        before = ("the reason", LINE, target.path)
        if "_graphbreak_ours" not in target.path.read_text():
            return Trial(record(3, before))
        reason, line = self._after
        return Trial(record(self._graphs, *([(reason, line, target.path)] if line else [])))

    def compared(self, *args: Any, **options: Any) -> Comparison:
        return Comparison()

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
    graphs: int = 2,
) -> SearchResult:
    monkeypatch.setattr(remedies, "for_break", lambda item, trial: iter([patch]))
    monkeypatch.setattr(remedies, "for_settings", lambda trial: ())
    path = tmp_path / "model.py"
    path.write_text(f"import torch\n{LINE}\nz = y + 1\n")
    bench: Any = MadeUp((reason, left), graphs)
    return Search(
        parse(str(path)),
        bench,
        most=9,
        keep_side_effects=False,
        header="",
        progress=lambda *args: None,
    ).run()


def test_a_patch_that_breaks_itself_hides_no_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = searched("_graphbreak_ours(y)", tmp_path, monkeypatch)
    assert (found.before, found.after) == (3, 2)
    (problem,) = found.problems
    assert problem.title == "the reason"
    assert problem.patches == [PATCH]
    assert not problem.fixed


def test_what_a_patch_takes_out_of_the_compiler_hides_no_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The call of a function that the patch disabled is a line of the program."""
    leaves = replace(PATCH, leaves=True)
    reason = "Skip inlining `torch.compiler.disable()`d function"
    (problem,) = searched("z = y + 1", tmp_path, monkeypatch, reason, leaves).problems
    assert (problem.title, problem.patches, problem.fixed) == ("the reason", [leaves], False)


def test_a_line_of_the_program_is_a_problem_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = searched("z = y + 1", tmp_path, monkeypatch)
    assert [(one.title, one.fixed) for one in found.problems] == [
        ("the reason", True),
        ("ours", False),
    ]


def test_a_break_less_in_as_many_graphs_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As that of a line before the first operation, which makes no graph of its own."""
    found = searched("", tmp_path, monkeypatch, graphs=3)
    assert (found.patches, found.before, found.after) == ([PATCH], 3, 3)
