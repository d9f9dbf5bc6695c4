"""The halves of the suite: every test file is run, and in the pure half none is skipped."""

from __future__ import annotations

import re

import pytest

from tests.__main__ import (
    APART,
    ENGINES,
    GATED_JAX,
    HALVES,
    JAX,
    ROOT,
    every_file,
    marked,
    once,
    pure,
    runs,
    with_jax,
)

pytestmark = pytest.mark.pure

FILES = set(every_file())


@pytest.mark.parametrize("half", ["torch", "xla", "night-torch", "night-xla"])
def test_every_file_is_in_a_half(half: str) -> None:
    left = once() if half.endswith("xla") else []
    *_, gated, apart = runs(half)
    left_out = {word.partition("=")[2] for word in gated if word.startswith("--ignore=")}
    assert left_out == {*pure(), *left, *APART, *JAX, *ENGINES}
    assert "tests" in gated
    assert set(apart) & {*APART, *left} == set(APART) - set(left)
    left_out = {word.partition("=")[2] for word in apart if "--ignore=" in word}
    assert left_out == {*pure(), *left, *JAX, *ENGINES}
    assert set(left) < FILES - set(pure())
    assert set(pure()) < FILES


def test_what_needs_jax_is_in_the_half_that_has_it() -> None:
    """Without JAX it is skipped, and nowhere else is it run."""
    skipped = re.compile(r"^[^#\n]{0,40}importorskip\(\"jax\"", re.M)
    needs = [file for file in FILES if skipped.search((ROOT / file).read_text(encoding="utf-8"))]
    assert needs
    assert [file for file in needs if file not in [*with_jax(), *marked("jax")]] == []


def test_models_of_jax_are_under_the_gate() -> None:
    gated, apart = runs("jax")
    assert "--graph-budget" in gated
    assert set(GATED_JAX) <= set(gated)
    assert "--graph-budget" not in apart
    assert {*GATED_JAX, *with_jax()} <= {*gated, *apart}
    assert [file for file in FILES if file.startswith(JAX) and file not in marked("jax")] == []


@pytest.mark.parametrize("half", HALVES)
def test_at_night_each_half_is_run_with_its_nightly_tests(half: str) -> None:
    def split(run: list[str]) -> tuple[set[str], list[str]]:
        """The markers of a run, and its other arguments."""
        at = run.index("-m") if "-m" in run else len(run)
        return set("".join(run[at + 1 : at + 2]).split(" and ")) - {""}, run[:at] + run[at + 2 :]

    for night, pushed in zip(runs(f"night-{half}"), runs(half), strict=True):
        markers, others = split(pushed)
        assert split(night) == (markers - {"not nightly"}, others)
    tox = (ROOT / "tox.ini").read_text(encoding="utf-8")
    assert f"\ncommands = python -m tests {{env:NIGHT:}}{half} {{posargs}}\n" in tox
    nightly = (ROOT / ".github" / "workflows" / "nightly.yml").read_text(encoding="utf-8")
    assert "env: [quick, torch, xla, jax]\n" in nightly


@pytest.mark.parametrize("file", pure())
def test_a_pure_file_is_not_skipped_without_torch(file: str) -> None:
    """It would be run nowhere then."""
    text = (ROOT / file).read_text(encoding="utf-8")
    assert not re.search(
        r"^[^#\"]*(importorskip|find_spec)\(\"(torch|transformers|numpy)", text, re.M
    )
