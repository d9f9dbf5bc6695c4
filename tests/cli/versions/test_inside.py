"""What a run tells of itself: how far it is, and whose code it imported."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from pytest_graphbreak.cli.versions import inside
from pytest_graphbreak.cli.versions.commits import UserCheckout, paths
from tests.cli.versions.history import Past


@pytest.fixture
def past(tmp_path: Path) -> Past:
    found = Past(tmp_path / "checkout")
    found.commit("one", {"src/owned_net/__init__.py": "", "tools/a_tool.py": ""})
    found.made()
    return found


def install(home: Path, url: str, name: str = "owned-net") -> None:
    """Describe a package as an installer does that took it from a directory."""
    info = home / "site-packages" / f"{name.replace('-', '_')}-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    (info / "direct_url.json").write_text(url)
    (info / "top_level.txt").write_text("owned_net\n")
    (info / "RECORD").write_text("")


def test_what_was_imported_from_the_checkout(
    past: Past, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(past.path / "tools"))
    monkeypatch.delitem(sys.modules, "a_tool", raising=False)
    assert not inside.outside(past.path)
    __import__("a_tool")
    assert inside.outside(past.path) == {"a_tool": str(past.path / "tools" / "a_tool.py")}
    assert not inside.outside(tmp_path / "other")
    monkeypatch.delitem(sys.modules, "a_tool")


def test_what_was_installed_from_the_checkout(
    past: Past, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(tmp_path, json.dumps({"url": past.path.as_uri(), "dir_info": {"editable": True}}))
    install(tmp_path, "no json", "torn")
    install(tmp_path, json.dumps({"url": "https://example.org/x"}), "fetched")
    home = tmp_path / "site-packages"
    (home / "owned_net.py").write_text("")
    assert not inside.installed_from(past.path)
    monkeypatch.syspath_prepend(str(home))
    assert inside.installed_from(past.path) == {"owned_net"}
    monkeypatch.delitem(sys.modules, "owned_net", raising=False)
    __import__("owned_net")
    assert inside.outside(past.path) == {"owned_net": str(home / "owned_net.py")}
    monkeypatch.delitem(sys.modules, "owned_net")


def test_worktrees_are_imported_from_where_the_checkout_is(
    past: Past, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    checkout = UserCheckout(past.path)
    assert paths(checkout) == [Path("src")]
    monkeypatch.syspath_prepend(str(past.path / "tools"))
    (past.path / "lib" / "site-packages").mkdir(parents=True)
    monkeypatch.syspath_prepend(str(past.path / "lib" / "site-packages"))
    assert paths(checkout) == [Path("tools"), Path("src")]


def test_how_far_a_run_is(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    note = pytester.path / "note"
    monkeypatch.setenv(inside.PROGRESS, str(note))
    pytester.makepyfile("def test_a(): pass\ndef test_b(): assert 0\n")
    pytester.runpytest_inprocess("-p", inside.__name__)
    assert note.read_text() == "2 of 2 tests"
    monkeypatch.setenv(inside.PROGRESS, str(pytester.path / "no" / "note"))
    pytester.runpytest_inprocess("-p", inside.__name__).assert_outcomes(passed=1, failed=1)
