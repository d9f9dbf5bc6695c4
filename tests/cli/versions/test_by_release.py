"""The releases that an index offers, from wheels of our own."""

from __future__ import annotations

from pathlib import Path
from typing import cast

import pytest

from pytest_graphbreak.cli.elsewhere import ElsewhereError
from pytest_graphbreak.cli.versions import by_release
from pytest_graphbreak.cli.versions.by_release import between
from pytest_graphbreak.layers.children.runner import CommandResult, Runner
from tests.cli.versions.wheels import wheel


@pytest.fixture
def releases(index: Path) -> None:
    for version in ("1.0.0", "1.10", "1.9", "1.10.1", "2.0rc1", "2.0"):
        wheel(index, "tiny", version)


@pytest.mark.usefixtures("releases")
def test_from_old_to_new_and_only_what_is_released(work: Runner) -> None:
    assert list(map(str, between(work, "tiny", "1.0", "2.0"))) == [
        "1.0.0",
        "1.9",
        "1.10",
        "1.10.1",
        "2.0",
    ]
    assert list(map(str, between(work, "Tiny", "1.10.1", "2.0rc1"))) == ["1.10.1", "2.0rc1"]


@pytest.mark.usefixtures("releases")
@pytest.mark.parametrize(
    ("args", "words"),
    [
        (("tiny", "1.0", "1.0.0"), "are the same release"),
        (("tiny", "2.0", "1.9"), "turn them round"),
        (("tiny", "old", "1.9"), "--good old: not a version"),
        (("tiny", "1.0", "1.11"), "--bad 1.11: the index offers no such release of tiny"),
        (("tiny", "1.0", "1.11"), r"near it: 1.9, 1.10, 1.10.1, 2.0"),
        (("nothing", "1", "2"), "--package nothing: pip lists no releases"),
        (("--pre", "1", "2"), "not the name of a package"),
        (("tiny==1", "1", "2"), "not the name of a package"),
    ],
)
def test_what_is_not_offered(args: tuple[str, str, str], words: str, work: Runner) -> None:
    with pytest.raises(ElsewhereError, match=words):
        between(work, *args)


class Index:
    """In an index's place: what pip says of it."""

    def __init__(self, said: str) -> None:
        self.said = said
        self.asked: list[str] = []

    def run(self, command: list[str]) -> CommandResult:
        self.asked = command
        return CommandResult(0, self.said, "")


def test_another_pip_is_asked_where_this_python_has_none(monkeypatch: pytest.MonkeyPatch) -> None:
    index = Index("tiny (2.0)\nAvailable versions: 2.0, 1.9, nightly, 1.0\n")
    monkeypatch.setattr(by_release, "has_pip", lambda: False)
    monkeypatch.setattr(by_release.shutil, "which", lambda name: f"/opt/{name}")
    found = between(cast("Runner", index), "tiny", "1.0", "2.0")
    assert list(map(str, found)) == ["1.0", "1.9", "2.0"]
    assert index.asked[0] == "/opt/pip"
    monkeypatch.setattr(by_release.shutil, "which", lambda name: None)
    with pytest.raises(ElsewhereError, match="has no pip, which lists the releases"):
        between(cast("Runner", index), "tiny", "1.0", "2.0")
