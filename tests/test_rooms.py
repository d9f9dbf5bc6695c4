"""The rooms of the package: what imports what, and the picture and the walk that tell of it."""

from __future__ import annotations

import ast
import re

import pytest

from tests import rooms

pytestmark = pytest.mark.pure

ARCHITECTURE = rooms.ROOT / "docs" / "explanation" / "architecture.md"


def test_no_room_imports_itself_by_way_of_others() -> None:
    assert rooms.circles(rooms.arrows()) == []


GATE = (
    *("plugin", "suite", "measuring", "layers", "judging", "baseline", "config", "model"),
    *("report", "text"),
)


def test_the_gate_needs_none_of_the_tools() -> None:
    """Nor do the reports: who reads the gate reads nothing else."""
    found = rooms.reached(GATE)
    tools = {name: by for name, by in found.items() if name.split(".")[1] in rooms.TOOLS}
    assert tools == {}, "what needs a tool, and which: cut the import"


def test_the_gate_reads_source_in_one_room() -> None:
    """Names of functions apart: what is shown was observed."""
    known = rooms.modules()
    reading = {
        name.removeprefix(f"{rooms.PACKAGE}.")
        for name in rooms.reached(GATE)
        for node in ast.walk(ast.parse(known[name].read_text("utf-8")))
        if (isinstance(node, ast.Import) and any(one.name == "ast" for one in node.names))
        or (isinstance(node, ast.ImportFrom) and node.module == "ast")
    }
    assert reading == {"layers.origins", "model.scopes"}
    assert len(known[f"{rooms.PACKAGE}.layers.origins"].read_text("utf-8").splitlines()) <= 200


def test_the_picture_shows_the_imports() -> None:
    drawn = rooms.draw(rooms.arrows())
    assert rooms.PICTURE.read_text("utf-8") == drawn, "draw it anew: python -m tests.rooms"


def test_the_page_names_every_room() -> None:
    text = ARCHITECTURE.read_text("utf-8")
    map_of_rooms = text.partition("```text")[2].partition("```")[0]
    named = re.findall(r"^(\w+)/? ", map_of_rooms, re.MULTILINE)
    assert {*rooms.arrows()} - {rooms.PUBLIC} == {*named}


def test_a_newcomer_has_few_names_to_learn() -> None:
    home = rooms.ROOT / rooms.PACKAGE
    names = {path.stem for path in home.iterdir() if not path.stem.startswith("_")}
    # `testing` is for users to import; nothing here needs it.
    assert len(names - {"py", "testing"}) <= 16, "fold a room into the one that it serves"


def test_the_walk_names_what_there_is() -> None:
    text = ARCHITECTURE.read_text("utf-8")
    walk = text[text.index("## One break") : text.index("## Processes")]
    names = re.findall(r"`([a-z]+\.[\w.]+)`", walk)
    assert len(names) > 15
    known = rooms.modules()
    for name in names:
        module, _, member = f"{rooms.PACKAGE}.{name}".rpartition(".")
        if f"{rooms.PACKAGE}.{name}" in known:
            continue
        assert module in known, name
        tree = ast.parse(known[module].read_text("utf-8"))
        constants = {
            node.target.id
            for node in tree.body
            if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name)
        }
        assert member in constants | {getattr(node, "name", "") for node in tree.body}, name


def test_no_class_has_the_name_of_another() -> None:
    homes: dict[str, list[str]] = {}
    for module, path in rooms.modules().items():
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.ClassDef):
                homes.setdefault(node.name, []).append(module)
    assert {name: where for name, where in homes.items() if len(where) > 1} == {}
