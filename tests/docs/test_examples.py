"""Every example in the documentation runs, and shows what it says it shows.

A fenced block says what it is in an HTML comment on the line before it:

``<!-- file: PATH -->``
    is written to PATH in the page's own directory.
``<!-- insert: PATH:LINE -->``
    is put above that line of a file that was written before.
``<!-- run: exit=N -->``
    a console block: lines after ``$ `` are run there, the others are real lines of
    the output, in this order. ``...`` marks lines that are left out.
    What differs from run to run is compared as equal (``_VARIES``): times, versions,
    hashes, directories, the width of the terminal.

``<!-- needs: PACKAGE -->`` anywhere on a page skips its runs where the package
is not installed. With ``<!-- columns: 80 -->`` a page shows the output on a
terminal of that width; without, the output through a pipe. A page's blocks
share one directory and run from top to bottom; with ``<!-- files of: PAGE -->``
the files of another page are there, too. YAML with ``version:`` is read
as a baseline, JSON with ``tests`` is validated by its schema, and Python has to
compile, whether or not a comment says more.
"""

from __future__ import annotations

import importlib.util
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from tests import terminal
from tests.docs.tools import ROOT, Block, _write, blocks, insert, write_files

PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
OTHERS = re.compile(r"<!-- files of: (\S+) -->")
NEEDS = re.compile(r"<!-- needs: (\w+) -->")
COLUMNS = re.compile(r"<!-- columns: (\d+) -->")

_VARIES = (
    (re.compile(r"(?:/[\w.+-]+)+/(?=project\b)"), ""),
    (re.compile(r"\b\d+(?:\.\d+)? ?m?s\b(?: \(\d+:\d\d:\d\d\))?"), "TIME"),
    (re.compile(r"\b\d{4}-\d\d-\d\d\b"), "DATE"),
    (re.compile(r"\b[0-9a-f]{7,40}\b"), "HASH"),
    (re.compile(r"\b\d+\.\d+(?:\.\w+)*(?:\+\w+)?"), "VERSION"),
    (re.compile(r"={3,}|-{3,}|_{3,}"), "="),
    (re.compile(r"\s+"), " "),
)
"""What differs from run to run, and what replaces it before lines are compared."""


def ids(page: Path) -> str:
    return str(page.relative_to(ROOT))


SLOW = ("assistants.md", "replace-a-check.md", "serving.md")
"""Pages of many commands, whose kinds other pages show as well: run at night."""


def shown() -> Iterator[Any]:
    """Pages with something to run; ``once`` those that torch_xla has no part in."""
    for page in PAGES:
        text = page.read_text()
        if "<!-- run:" in text:
            needs = NEEDS.findall(text)
            once = [] if "torch_xla" in needs else [pytest.mark.once]
            jax = [pytest.mark.jax] if "jax" in needs else []
            night = [pytest.mark.nightly] if page.name in SLOW else []
            yield pytest.param(page, marks=[*once, *jax, *night])


@pytest.mark.once
@pytest.mark.parametrize("page", PAGES, ids=ids)
def test_a_page_is_valid(page: Path, tmp_path: Path) -> None:
    from pytest_graphbreak.baseline import Baselines

    schema = json.loads((files("pytest_graphbreak") / "schemas" / "report.json").read_text())
    for number, block in enumerate(blocks(page)):
        if block.language == "python":
            compile(block.text, block.place, "exec")
        elif block.language == "yaml" and "version: 1" in block.text and "tests:" in block.text:
            path = tmp_path / f"b{number}" / "test_it.yaml"
            path.parent.mkdir()
            path.write_text(block.text)
            Baselines(path.parent).check()
        elif block.language == "json" and '"tests"' in block.text:
            jsonschema.Draft202012Validator(schema).validate(json.loads(block.text))


WILDCARD = re.compile(r"(?:^|\s)\*(?:\d|$)|\w\*$|\(\*\)|\"\*\"")


@pytest.mark.once
@pytest.mark.parametrize("page", PAGES, ids=ids)
def test_a_page_shows_no_wildcard(page: Path) -> None:
    for block in blocks(page):
        lines = block.text.splitlines() if block.word == "run" else []
        assert not [x for x in lines if WILDCARD.search(x) and not x.startswith("$ ")], block.place


@pytest.mark.usefixtures("xla_forks")
@pytest.mark.parametrize("page", list(shown()), ids=ids)
def test_a_page_does_what_it_shows(page: Path, tmp_path: Path) -> None:
    here = tmp_path / "project"
    here.mkdir()
    (here / "pytest.ini").write_text("[pytest]\n")
    text = page.read_text()
    for package in NEEDS.findall(text):
        if not importlib.util.find_spec(package):
            pytest.skip(f"{package} is not installed")
    columns = int(found[1]) if (found := COLUMNS.search(text)) else None
    for other in OTHERS.findall(text):
        write_files(ROOT / other, here)
    for block in blocks(page):
        if block.word == "file":
            _write(block, here)
        elif block.word == "insert":
            insert(block, here)
        elif block.word == "run":
            _run(block, here, columns)


def _run(block: Block, here: Path, columns: int | None) -> None:
    wanted = int(block.what.removeprefix("exit="))
    commands = [line[2:] for line in block.text.splitlines() if line.startswith("$ ")]
    shown = [line for line in block.text.splitlines() if not line.startswith("$ ")]
    output = ""
    for command in commands:
        code, said = _piped(command, here) if columns is None else _typed(command, here, columns)
        output += said
    assert code == wanted, f"{block.place}: exit {code}\n{output}"
    _assert_shown(block, shown, output)


def _piped(command: str, here: Path) -> tuple[int, str]:
    environment = {k: v for k, v in os.environ.items() if k not in ("CI", "GITHUB_ACTIONS")}
    environment["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{environment['PATH']}"
    environment["COLUMNS"] = "120"
    done = subprocess.run(
        command, shell=True, cwd=here, env=environment, capture_output=True, text=True
    )
    return done.returncode, done.stdout + done.stderr


def _typed(command: str, here: Path, columns: int) -> tuple[int, str]:
    seen = terminal.run(["sh", "-c", command], here, {"NO_COLOR": "1"}, columns)
    return seen.code, seen.text


def _assert_shown(block: Block, shown: list[str], output: str) -> None:
    lines = (_plain(line) for line in output.splitlines())
    for wanted in shown:
        if not wanted.strip() or wanted.strip() == "...":
            continue
        missing = f"{block.place}: the output does not show\n{wanted}\nbut\n{output}"
        assert _plain(wanted) in lines, missing


def _plain(line: str) -> str:
    """A line without what differs from run to run."""
    for pattern, word in _VARIES:
        line = pattern.sub(word, line)
    return line.strip()
