"""The search for patches, on a program whose runs are made up: what is reported of each break."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from pytest_graphbreak.cli.fix import report
from pytest_graphbreak.model.items import Break, Frame
from pytest_graphbreak.model.record import Frames, Record
from pytest_graphbreak.repair import remedies
from pytest_graphbreak.repair.patches import ProgramFiles, SourcePatch, UnfitError
from pytest_graphbreak.repair.search import Search, SearchResult
from pytest_graphbreak.repair.target import Target, parse
from pytest_graphbreak.repair.trial import Rounds, Site, Trial

pytestmark = pytest.mark.pure

LINE = "y = helper(x)"


def change(source: str) -> str | None:
    return source.replace(LINE, "y = ours(x)") if LINE in source else None


PATCH = SourcePatch("a patch", change, "model.py")


def record(graphs: int, *breaks: tuple[str, str]) -> Record:
    """Breaks by reason and line."""
    items = tuple(
        Break("dynamo", reason, Frame("model.py", "f", 2, code)) for reason, code in breaks
    )
    return Record(("dynamo",), {"dynamo": graphs}, frames=Frames(3, graphs), breaks=items)


class MadeUp:
    """Runs nothing: what a program compiles follows from its text, by ``run_of``."""

    def __init__(self, path: Path, run_of: Callable[[str], Trial]) -> None:
        self._path = path
        self._run_of = run_of

    def measure(self, target: Target, **options: Any) -> Trial:
        (text,) = (options.get("replaced") or {"": self._path.read_text()}).values()
        return structs.replace(self._run_of(text), sites={"model.py": Site(self._path, "model")})

    def run(self, *args: Any, **options: Any) -> tuple[dict[str, Any], str]:
        return {"compared": {}}, ""

    def replacing(self, texts: Mapping[Path, bytes]) -> dict[str, str]:
        return {str(path): text.decode() for path, text in texts.items()}


Searched = Callable[..., SearchResult]


@pytest.fixture
def searched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Searched:
    """Searches with patches for each break; ``run_of`` says what a text of the program compiles."""

    def search(run_of: Callable[[str], Trial], *patches: SourcePatch) -> SearchResult:
        monkeypatch.setattr(remedies, "for_break", lambda item, trial: iter(patches))
        path = tmp_path / "model.py"
        path.write_text(f"import torch\n{LINE}\nz = y + 1\n")
        bench: Any = MadeUp(path, run_of)
        return Search(parse(str(path)), bench).run()

    return search


def patched(after: Record, rounds: Rounds | None = None) -> Callable[[str], Trial]:
    """Three graphs and a break, and with ``PATCH`` this record."""
    first, last = Trial(record(3, ("the reason", LINE))), Trial(after, rounds=rounds or Rounds())
    return lambda text: first if LINE in text else last


@pytest.mark.parametrize(
    ("after", "why"),
    [
        (record(2, ("ours", "y = ours(x)")), "the new line breaks, too"),
        (record(3, ("the reason", LINE)), "the break is still there"),
        (record(4), "the dynamo graphs got more (3 -> 4)"),
        (record(0), "nothing is compiled"),
    ],
)
def test_a_patch_that_is_not_kept_has_its_reason(
    after: Record, why: str, searched: Searched
) -> None:
    out = searched(patched(after), PATCH)
    (problem,) = out.problems
    assert (out.patches, problem.fixed) == ([], False)
    assert [why for _, why in problem.tried] == [why]


@pytest.mark.parametrize("graphs", [1, 2, 3])
def test_a_break_less_is_kept_also_in_as_many_graphs(graphs: int, searched: Searched) -> None:
    """As that of a line before the first operation, which makes no graph of its own."""
    out = searched(patched(record(graphs)), PATCH)
    assert (out.patches, out.before, out.after) == ([PATCH], 3, graphs)


def test_what_only_uncovers_another_break_is_taken_back(searched: Searched) -> None:
    out = searched(patched(record(3, ("another", "z = y + 1"))), PATCH)
    (problem,) = out.problems
    assert (out.patches, out.after, problem.fixed) == ([], 3, False)
    assert problem.tried[0][1].startswith("neither graphs nor breaks got fewer")


@pytest.mark.parametrize(
    ("second_alone", "kept"),
    [
        (3, ["a patch (5 -> 4)", "another (4 -> 2)"]),
        (2, ["another (5 -> 2)"]),
        (1, ["another (5 -> 1)"]),
    ],
)
def test_each_patch_that_is_kept_has_its_own_counts(
    second_alone: int, kept: list[str], searched: Searched
) -> None:
    """The first makes a graph less and the second ends the break, here also alone."""
    second = SourcePatch("another", lambda source: source.replace("z = y", "z = 2 * y"), "model.py")
    is_there = ("the reason", LINE)

    def run_of(text: str) -> Trial:
        if "2 * y" not in text:
            return Trial(record(5 if LINE in text else 4, is_there))
        return Trial(record(second_alone if LINE in text else 2))

    out = searched(run_of, PATCH, second)
    lines = list(report(out, lambda finding: iter(())))
    assert [line.text for line in lines if line.head == "kept  "] == kept
    assert lines[-1].text == f"graphs 5 -> {kept[-1][-2]}"


@pytest.mark.parametrize(
    ("rounds", "why"),
    [
        (Rounds([1, 0, 0, 0]), ""),
        (Rounds([1, 1, 1, 1]), "still 1 new graph at the end"),
        (Rounds([1, 1, 0, 0], limit=1, eager=1), "1 function at the recompile limit"),
        (Rounds([1, 0, 0, 0], eager=2), "code leaves the compiler"),
    ],
)
def test_what_grows_in_a_longer_run_is_not_kept(
    rounds: Rounds, why: str, searched: Searched
) -> None:
    out = searched(patched(record(1), rounds), PATCH)
    assert bool(out.patches) == (not why)
    assert [why for _, why in out.problems[0].tried] == (
        [f"{why} if the program runs four times as long"] if why else []
    )


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("x = 1\n" * 9, "it would change 10 lines, and may change 8"),
        ("# c\n" + "x = 1\n" * 7, ""),
        ("x = 1\n", "a comment would go: # c"),
    ],
)
def test_a_patch_is_short_and_keeps_comments(text: str, why: str, tmp_path: Path) -> None:
    path = tmp_path / "a.py"
    path.write_text("# c\n" if "# c" in why + text else "y = 2\n")
    patch = SourcePatch("a patch", lambda source: text, "a.py")
    sources = ProgramFiles(parse(str(path)), {"a.py": Site(path, "a")})
    if why:
        with pytest.raises(UnfitError, match=why):
            sources.apply([patch])
    else:
        assert sources.apply([patch]) == {"a.py": text}
