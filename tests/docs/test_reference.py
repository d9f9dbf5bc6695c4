"""Each public name has its line in the reference: options, keys, fields, causes, commands."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from pytest_graphbreak.baseline.schemas import HOME
from pytest_graphbreak.cli import _parser
from pytest_graphbreak.config.settings import add_options
from pytest_graphbreak.model.differences import VERDICTS
from pytest_graphbreak.model.layers import BY_NAME, LAYERS
from tests.docs.tools import blocks

pytestmark = pytest.mark.pure

DOCS = Path(__file__).parents[2] / "docs"


def missing(names: Iterable[str], page: str) -> list[str]:
    text = (DOCS / page).read_text("utf-8")
    return [name for name in names if f"`{name}" not in text and f'"{name}"' not in text]


def keys(schema: Any) -> set[str]:
    """The names of all properties in a schema."""
    if isinstance(schema, list):
        return {key for part in schema for key in keys(part)}
    if not isinstance(schema, dict):
        return set()
    below = {key for part in schema.values() for key in keys(part)}
    return below | {*schema.get("properties", {})}


class Declared:
    """What ``add_options`` declares, as a parser is told of it."""

    def __init__(self) -> None:
        self.options: list[str] = []
        self.ini: list[str] = []
        add_options(self)  # type: ignore[arg-type]

    def getgroup(self, *_: str) -> Declared:
        return self

    def addoption(self, name: str, **_: Any) -> None:
        self.options.append(name)

    def addini(self, name: str, *_: Any, **__: Any) -> None:
        self.ini.append(name)


def test_every_option_and_ini_key() -> None:
    declared = Declared()
    assert len(declared.options) > 5
    assert len(declared.ini) > 10
    assert missing(declared.options + declared.ini, "reference/options.md") == []


@pytest.mark.parametrize(
    ("schema", "page"),
    [("report", "reference/report.md"), ("baseline", "reference/baseline-file.md")],
)
def test_every_key_of_a_file(schema: str, page: str) -> None:
    names = keys(json.loads((HOME / f"{schema}.json").read_text("utf-8")))
    assert len(names) > 15
    assert missing(names - {*LAYERS}, page) == []


def test_every_layer_cause_and_verdict() -> None:
    assert missing([*LAYERS, *BY_NAME, *VERDICTS], "explanation/counting.md") == []


OURS = re.compile(r"(?<![\w/.~-])(graphbreak|pytest) ([^|#<>\n]*)")


@pytest.mark.parametrize("page", sorted(DOCS.rglob("*.md")), ids=lambda page: page.stem)
def test_a_command_that_no_page_test_types_has_arguments_that_there_are(page: Path) -> None:
    """It needs a machine, a network or a package that is not at hand."""
    options = Declared().options
    untyped = [block for block in blocks(page) if block.language == "console" and not block.word]
    typed = re.sub(r"<\(.*?\)", "FILE", "\n".join(block.text for block in untyped))
    for program, words in OURS.findall(typed):
        args = shlex.split(words)
        if program == "graphbreak":
            _parser(args[0]).parse_args(args)  # exits for one that there is not
        for arg in args:
            assert not arg.startswith("--graph-budget") or arg.partition("=")[0] in options, words
