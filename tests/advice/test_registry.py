"""Torch's registry of ids: found without importing torch, read whole, and never trusted."""

from __future__ import annotations

import importlib.machinery
import importlib.util
import json
import subprocess
import sys
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pytest_graphbreak.advice import registry

torch = pytest.importorskip("torch")

pytestmark = pytest.mark.once
VERSION = tuple(int(part) for part in torch.__version__.split(".")[:2])


def test_it_is_that_of_the_installed_torch() -> None:
    found = registry.installed_registry()
    assert found.version == torch.__version__
    assert bool(found.ids) == (VERSION >= (2, 8))


@pytest.mark.skipif(VERSION < (2, 8), reason="torch has no registry")
def test_no_id_is_lost() -> None:
    file = Path(torch.__file__).parent / "_dynamo" / "graph_break_registry.json"
    assert set(registry.installed_registry().ids) == set(json.loads(file.read_text()))


@pytest.mark.skipif(VERSION < (2, 8), reason="torch has no links")
def test_links_are_built_as_torch_builds_them() -> None:
    from torch._dynamo import exc

    source = Path(exc.__file__).read_text()  # torch keeps the start of the link in a function
    assert next(part for part in source.split('"') if part.endswith("/gb/")) == registry.SITE


def test_torch_is_not_imported() -> None:
    """Nor need it be there: who reads of an id in a pull request may have none."""
    code = """if True:
        import sys
        from pytest_graphbreak.advice import explain, registry

        assert registry.installed_registry().version
        assert "torch" not in sys.modules
        registry.installed_registry.cache_clear()
        sys.modules["torch"] = None
        print(registry.installed_registry(), explain("GB0124").family)
    """
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "Registry(version=None, ids={}) item\n"


def test_the_table_has_the_ids_of_the_newest_torch() -> None:
    table = registry.shipped_registry()
    assert len(table.ids) > 500
    newest = tuple(int(part) for part in table.version.split(".")[:2])
    if newest == VERSION:
        reasons = {id: words[0].reason for id, words in registry.installed_registry().ids.items()}
        assert {id: words[0].reason for id, words in table.ids.items()} == reasons


@pytest.mark.parametrize(
    ("text", "id"),
    [
        ("GB0059", "GB0059"),
        ("gb59", "GB0059"),
        (" GB-124 ", "GB0124"),
        ("gb 7000", "GB7000"),
        ("59", None),
        ("GB", None),
        ("GB12345", None),
        ("gbx1", None),
    ],
)
def test_ids_are_read_as_people_write_them(text: str, id: str | None) -> None:
    assert registry.as_id(text) == id


def write(folder: Path, data: Any) -> Path:
    file = folder / "registry.json"
    file.write_text(data if isinstance(data, str) else json.dumps(data))
    return file


def test_earlier_meanings_are_kept_newest_first(tmp_path: Path) -> None:
    data = {
        "GB0249": [
            {"Gb_type": "now", "Explanation": "msg", "Hints": ["a"]},
            {"Gb_type": "before", "Explanation": "Before.", "Hints": [""]},
            {"Gb_type": "now", "Explanation": "Now.", "Hints": []},
            {"Gb_type": "_gb_type", "Explanation": "x", "Hints": []},
        ]
    }
    now, before = registry.read(write(tmp_path, data))["GB0249"]
    assert (now.reason, now.explanation, now.hints) == ("now", "Now.", ("a",))
    assert (before.reason, before.explanation, before.hints) == ("before", "Before.", ())


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("msg", ""),
        ("str(cause)", ""),
        ("", ""),
        ("This is not supported.", "This is not supported."),
        ('"One " "two." + trace', "One two."),
    ],
)
def test_what_torch_makes_only_later_is_empty(text: str, read: str, tmp_path: Path) -> None:
    data = {"GB0001": [{"Gb_type": "a", "Explanation": text, "Hints": []}]}
    assert registry.read(write(tmp_path, data))["GB0001"][0].explanation == read


@pytest.mark.parametrize("data", ["", "{", "[]", "3", '{"GB0001": 3}', '{"GB0001": [3, {}]}'])
def test_a_registry_of_another_form_is_empty(data: str, tmp_path: Path) -> None:
    assert registry.read(write(tmp_path, data)) == {}
    assert registry.read(tmp_path / "nowhere.json") == {}


@pytest.fixture
def _asked_anew() -> Iterator[None]:
    registry.installed_registry.cache_clear()
    yield
    registry.installed_registry.cache_clear()


@pytest.mark.usefixtures("_asked_anew")
def test_something_in_torchs_place_has_no_registry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", types.ModuleType("torch"))
    found = registry.installed_registry()
    assert (found.version, found.ids) == (None, {})


@pytest.mark.usefixtures("_asked_anew")
def test_a_torch_without_a_file_of_its_version(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that was built in place has none before the first build."""
    spec = importlib.machinery.ModuleSpec("torch", None, is_package=True)
    spec.submodule_search_locations = [str(tmp_path)]
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: spec)
    found = registry.installed_registry()
    assert found.ids == {}
    assert found.version is None
