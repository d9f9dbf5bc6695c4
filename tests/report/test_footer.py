"""The end of a failure: which baseline, what it was measured with, what to type next."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec import structs
from msgspec.structs import replace

from pytest_graphbreak.baseline.model import Expected
from pytest_graphbreak.config.typed import Typed
from pytest_graphbreak.judging.judgement import Case, Judgement
from pytest_graphbreak.judging.verdict import Verdict
from pytest_graphbreak.model.budget import Values
from pytest_graphbreak.model.differences import Difference
from pytest_graphbreak.model.items import Frame
from pytest_graphbreak.model.record import Record
from pytest_graphbreak.report.failure import Context, footer
from tests.changes import total

pytestmark = pytest.mark.pure

DYNAMO = Record(layers=("dynamo",))
TORCH = {"torch": "2.13.0+cpu"}
CONTEXT = Context(
    "tests/test_it.py::test_it",
    "cpu",
    baseline="baselines/tests/test_it.yaml",
    baseline_line=5,
    typed=Typed(("python", "-m", "pytest")),
)
GROWN = total()
OVER = Verdict("over", (GROWN,))
BASELINE = "  baseline  baselines/tests/test_it.yaml:5 (cpu, torch 2.13)"


def a_case(recorded: dict[str, str], profile: str = "cpu", **facts: Any) -> Case:
    """A case with a baseline of ``recorded`` versions; ``was`` are packages of that time."""
    expected = Expected(Values(), profile, recorded, True, packages=facts.pop("was", {}))
    return Case(expected=expected, **{"record": DYNAMO, "versions": TORCH} | facts)


def of(verdict: Verdict, case: Case | None = None, **context: Any) -> list[str]:
    judged = Judgement(case or a_case({"torch": "2.13"}), verdict)
    return [*map(str, footer(judged, [], replace(CONTEXT, **context)))]


@pytest.mark.parametrize(
    ("context", "line"),
    [
        ({"case": a_case({})}, BASELINE.partition(" (")[0]),
        ({"baseline_line": None}, BASELINE.replace(":5", "")),
        ({"case": a_case({"torch": "2.13"}, "")}, BASELINE.replace("cpu, ", "")),
    ],
)
def test_what_measured_the_baseline(context: dict[str, Any], line: str) -> None:
    assert of(OVER, **context)[1] == line


@pytest.mark.parametrize(
    ("layers", "versions", "words"),
    [
        (("jax",), {"jax": "0.10.2"}, "jax 0.10"),
        (
            ("jax",),
            {"jax": "0.12.0", "torch": "2.14"},
            "jax 0.10; now 0.12, where counts may differ",
        ),
        (("dynamo", "jax"), {"torch": "2.13.1", "jax": "0.10.2"}, "torch 2.13, jax 0.10"),
        (
            ("dynamo", "jax"),
            {"torch": "2.13.1", "jax": "0.12.0"},
            "torch 2.13, jax 0.10; now jax 0.12, where counts may differ",
        ),
    ],
)
def test_the_compilers_of_the_layers_that_were_there(
    layers: tuple[str, ...], versions: dict[str, str], words: str
) -> None:
    both = {"torch": "2.13", "jax": "0.10"}
    _, line = of(OVER, a_case(both, versions=versions, record=Record(layers=layers)))
    assert line.endswith(f" (cpu, {words})")


def test_a_package_is_named_where_its_code_is_new_and_its_version_another() -> None:
    where = Frame("transformers/bert.py", "Bert.forward", 8, "x.item()")
    verdict = structs.replace(
        OVER, changes=(GROWN, Difference("break", "dynamo", where=where, before=0, after=1))
    )
    recorded = {"transformers": "5.22.1", "timm": "1.0"}

    def shown(now: dict[str, str]) -> list[str]:
        lines = of(verdict, case=a_case({"torch": "2.13"}, was=recorded, packages=now))
        return [line for line in lines if line.startswith("  package")]

    of_place = shown({"transformers": "5.23.0", "timm": "2.0"})
    assert of_place == ["  package   transformers 5.22 -> 5.23"]
    assert shown({"transformers": "5.22.2"}) == ["  package   transformers 5.22.1 -> 5.22.2"]
    assert shown(recorded) == []
