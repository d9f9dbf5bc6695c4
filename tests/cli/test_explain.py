"""``graphbreak explain``: what it prints, where, and its exit codes."""

from __future__ import annotations

import subprocess
import sys

import pytest

from pytest_graphbreak import cli
from pytest_graphbreak.advice import registry
from pytest_graphbreak.advice.explanation import FAMILIES
from pytest_graphbreak.cli.explain import WIDTH

IDS = registry.installed().ids
with_ids = pytest.mark.skipif("GB0124" not in IDS, reason="this torch has no such id")


def run(*words: str) -> int:
    return cli.main(["explain", *words])


def test_a_name_is_explained_with_code_before_and_after(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run("branch") == 0
    out, err = capsys.readouterr()
    assert err == ""
    lines = out.splitlines()
    assert lines[0] == "branch: an if on a tensor's values"
    for part in ("What it means", "Why", "What to write instead", "Switches"):
        assert part in lines
    before, after = lines.index("  before"), lines.index("  after")
    assert lines[before + 1] == "      def f(x):"
    assert "          if x.sum() > 0:" in lines[before:after]
    assert "          return torch.where(x.sum() > 0, x + 1, x - 1)" in lines[after:]


@with_ids
def test_an_id_has_torchs_own_words_with_their_version(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run("gb124") == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[:2] == [
        "GB0124: Unsupported Tensor.item() call with capture_scalar_outputs=False",
        "  item: .item(), int(t), float(t): a tensor read back as a Python number",
    ]
    assert f"Torch {registry.installed().version} on GB0124" in lines
    assert lines[-1].strip() == registry.link("GB0124")


@with_ids
def test_an_id_without_a_page_of_ours_is_explained_too(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run("GB0249") == 0
    out = capsys.readouterr().out
    assert f"Torch {registry.installed().version} on GB0249" in out
    assert ("Earlier meanings of GB0249" in out) == (len(IDS["GB0249"]) > 1)


def test_the_words_of_a_reason_need_no_quotes(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("Data-dependent", "jump") == 0
    assert capsys.readouterr().out.startswith(("branch: ", "GB0170: "))


def test_an_example_says_what_it_raises_and_for_which_torch(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run("torch.cond") == 0
    lines = capsys.readouterr().out.splitlines()
    assert "  before, which raises UncapturedHigherOrderOpError" in lines
    assert "  (torch 2.9 and later)" in lines


def test_without_a_name_all_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert run() == 0
    lines = capsys.readouterr().out.splitlines()
    listed = {line.split()[0] for line in lines if line.startswith("  ")}
    assert listed == set(FAMILIES)


def test_what_nobody_knows_is_an_error_that_names_what_is_near(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run("recompyle") == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert "no advice on 'recompyle'" in err
    assert "did you mean: recompile" in err


def test_an_id_that_this_torch_does_not_have_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("GB9999") == 2
    err = capsys.readouterr().err
    assert f"torch {registry.installed().version}" in err
    assert ("has no such id" in err) == bool(IDS)


def test_without_torch_the_names_are_still_explained() -> None:
    script = (
        "import sys; sys.modules['torch'] = None\n"
        "from pytest_graphbreak import cli\n"
        "assert cli.main(['explain', 'split']) == 0\n"
        "assert cli.main(['explain', 'GB0124']) == 2\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("split: ")
    assert "there is none here" in done.stderr


@pytest.mark.parametrize("topic", [*sorted(FAMILIES), *sorted(IDS)[::7]])
def test_text_fits_the_width_and_is_clean(topic: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(topic) == 0
    _, *lines = capsys.readouterr().out.splitlines()
    for line in lines:
        assert line == line.rstrip()
        code = line.startswith("      ")
        assert code or len(line) <= WIDTH or len(line.split()) == 1  # links are not cut
