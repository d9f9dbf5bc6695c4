"""Every command that is printed on a terminal, pasted from it into a shell, is the one line.

Programs run on terminals of several widths, started in each way that people start pytest; but for
uv they are forks (``tests/forkserver.py``). A command is known by its one-line form, from the same
run into a pipe.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("torch")

from tests import terminal
from tests.examples import sample
from tests.forkserver import Server

pytestmark = pytest.mark.once

COLUMNS = (40, 60, 80, 120)
STARTS = {
    "pytest": ["pytest"],
    "module": ["python", "-m", "pytest"],
    "uv": [
        *("uv", "run", "--no-project", "--no-python-downloads", "--python", sys.executable),
        "pytest",
    ],
}
COMMAND = re.compile(
    r"(?:^ *|  |: )"
    r"((?:PYTEST_ADDOPTS='[^']*' )?(?:uv run (?:\S+ )*?)?"
    r"(?:pytest|graphbreak|python\S*(?: -m)?) [^ ,].*)$",
    re.M,
)
"""A command in what went through a pipe, where no line is broken."""
TOOLS = {
    "script": ["graphbreak"],
    "module": ["python", "-m", "pytest_graphbreak"],
    "uv": [*STARTS["uv"][:-1], "graphbreak"],
}
SOURCE = """
import pytest
import torch


@pytest.mark.parametrize("name", ["bert-large-uncased", "it's"])
def test_encoder_with_its_head(name):
    def encode(x):
        y = torch.sin(x)
        BREAK
        return y + 1

    torch.compile(encode, backend="eager")(torch.ones(3))
"""
TEST = "tests/models_of_the_house/encoders/test_transformer_encoder.py"


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory, server_of_forks: Server) -> Path:
    """Two recorded tests of long names that break now, a new one, and their report."""
    path = tmp_path_factory.mktemp("project")
    (path / "commands").symlink_to(server_of_forks.directory)
    (path / "pytest.ini").write_text("[pytest]\n")
    test = path / TEST
    test.parent.mkdir(parents=True)
    test.write_text(SOURCE.replace("BREAK", "pass"))
    piped(
        ["python", "-m", "pytest", "--graph-budget-record", "--graph-budget-report=before.json"],
        path,
    )
    new = "\n\ndef test_new():\n    torch.compile(torch.sin, backend='eager')(torch.ones(3))\n"
    test.write_text(SOURCE.replace("BREAK", "torch._dynamo.graph_break()") + new)
    piped(["python", "-m", "pytest", "--graph-budget", "--graph-budget-report=graphs.json"], path)
    return path


def environment(start: str, path: Path) -> dict[str, str]:
    """That of the shell: where uv starts pytest, the commands of the forks are not on PATH."""
    clean = {name: value for name, value in os.environ.items() if name not in terminal.OURS}
    if start != "uv":
        return clean | {"PATH": f"{path / 'commands'}{os.pathsep}{clean.get('PATH', '')}"}
    uv = shutil.which("uv", path=f"{Path(sys.executable).parent}{os.pathsep}{clean['PATH']}")
    if uv is None:
        pytest.skip("uv is not installed")
    (path / "bin").mkdir(exist_ok=True)
    if not (path / "bin" / "uv").exists():
        (path / "bin" / "uv").symlink_to(uv)
    return clean | {"PATH": f"{path / 'bin'}{os.pathsep}/usr/bin{os.pathsep}/bin"}


def piped(command: list[str], path: Path, start: str = "pytest") -> str:
    done = subprocess.run(
        command, cwd=path, env=environment(start, path), capture_output=True, text=True, check=False
    )
    return done.stdout + done.stderr


def commands(text: str, first: str) -> Iterator[tuple[str, list[str]]]:
    """Each place of a terminal that begins with this word, and what a shell reads of it."""
    name = re.escape(first.partition("=")[0])  # of a variable that is set for the command
    for found in re.finditer(rf"(?<!\S){name}(?![^\s=])(?:[^\n]*\\\n)*[^\n]*", text):
        try:
            yield found[0], shlex.split(found[0].replace("\\\n", ""))
        except ValueError:
            continue  # prose with an apostrophe


def pasted(text: str, first: str) -> list[list[str]]:
    return [words for _, words in commands(text, first)]


def held(text: str, one_lines: list[str], columns: int) -> None:
    """Each command can be pasted from the terminal, and no part of it does another thing."""
    wanted = [shlex.split(line) for line in one_lines]
    for words in wanted:
        assert words in pasted(text, words[0]), (columns, words, text)
    lines = [line for line in text.splitlines() if "--graph-budget-" in line]
    for line in lines:
        assert len(line) <= columns, line
    for words in pasted(text, wanted[0][0] if wanted else "pytest"):
        if any(word.startswith("--graph-budget-") for word in words):
            assert words in wanted, words


@pytest.mark.parametrize("start", sample(STARTS, ["pytest"]))
def test_what_a_red_run_prints_can_be_pasted(start: str, project: Path) -> None:
    """Each test, the summary; what a terminal shows is run by a shell at the narrowest."""
    command = [*STARTS[start], "-p", "no:cacheprovider", "--graph-budget"]
    one_lines = COMMAND.findall(piped(command, project, start))
    # Of the first test what explains and what accepts it, of the new one what records it, and of
    # the summary what is next: the second test of the cause points to the first.
    tools = [line for line in one_lines if "graphbreak" in line.split("explain")[0]]
    assert len(one_lines) == 2 + 1 + 1, one_lines
    assert len(tools) == 1
    shell = environment(start, project)
    for columns in COLUMNS[::2]:
        seen = terminal.run(command, project, shell, columns)
        held(seen.text, one_lines, columns)
        if columns == COLUMNS[0]:
            narrow = seen.text
    runs_alike(narrow, one_lines, project, shell)


def runs_alike(text: str, one_lines: list[str], project: Path, shell: dict[str, str]) -> None:
    """``explain`` says something, and ``accept`` writes the one entry that it names."""
    (explain,) = {line for line in one_lines if " explain " in line}
    assert run_by_a_shell(text, explain, project, shell) == 0
    accept = next(line for line in one_lines if "-update" in line and "::" in line)
    file = project / "baselines" / TEST.replace(".py", ".yaml")
    before = file.read_text()
    try:
        assert run_by_a_shell(text, accept, project, shell) == 0
        after = file.read_text()
    finally:
        file.write_text(before)
    assert (before.count("breaks:"), after.count("breaks:")) == (0, 1)
    assert "test_new" not in after


def run_by_a_shell(text: str, one_line: str, project: Path, shell: dict[str, str]) -> int:
    """Paste what the terminal shows for this command; the shell's exit code."""
    wanted = shlex.split(one_line)
    for shown, words in commands(text, wanted[0]):
        if words == wanted:
            return subprocess.run(
                ["sh"], input=shown, cwd=project, env=shell, text=True, check=False
            ).returncode
    raise AssertionError(f"not on the terminal: {one_line}")


STARTED = {".": (), "tests": (), "..": ("-c", "project/own.ini", "--rootdir", "project")}
"""Where pytest is started, from the rootdir, and the options that it needs there."""
NET = """
import house
import torch


def test_known():
    torch.compile(lambda x: x + 1, backend="eager")(torch.ones(3))
"""
GONE = """

def test_gone():
    torch.compile(torch.sin, backend="eager")(torch.ones(3))
"""
NEW = """

def test_new():
    torch.compile(torch.sin, backend="eager")(torch.ones(3))
"""
SAYS = {
    "explain": "What it means",
    "--graph-budget-update": "updated    tests/test_net.py::test_known ",
    "--graph-budget-record": "recorded   tests/test_net.py::test_new ",
    "--graph-budget-prune": "pruned     tests/test_net.py::test_gone",
}
"""What shows that a command did what it is for."""


@pytest.fixture
def net(tmp_path: Path, server_of_forks: Server) -> Path:
    """A red test, a new one and one that is gone; the ini file, which they need, names baselines.

    A healthy test has the same name below the directory of the tests.
    """
    (tmp_path / "commands").symlink_to(server_of_forks.directory)
    root = tmp_path / "project"
    for name in ("tests/tests", "src"):
        (root / name).mkdir(parents=True)
    (root / "src" / "house.py").touch()
    for name in ("pytest.ini", "own.ini"):
        (root / name).write_text("[pytest]\npythonpath = src\ngraph_budget_dir = kept\n")
    (root / "tests" / "tests" / "test_net.py").write_text("def test_known():\n    pass\n")
    (root / "tests" / "test_net.py").write_text(NET + GONE)
    typed("pytest --graph-budget-record tests/test_net.py", root)
    text = NET.replace("x + 1", "x.sum().item() + x") + NEW
    (root / "tests" / "test_net.py").write_text(text)
    return root


def typed(line: str, here: Path, **variables: str) -> str:
    """What a line says that a shell runs in this directory."""
    shell = environment(
        "pytest", next(path for path in (here, *here.parents) if (path / "commands").exists())
    )
    return subprocess.run(
        ["sh", "-c", line], cwd=here, env=shell | variables, capture_output=True, text=True
    ).stdout


@pytest.mark.parametrize("started", sample(STARTED, ["tests"]))
def test_each_command_does_what_it_says_where_pytest_was_started(started: str, net: Path) -> None:
    here = (net / started).resolve()
    test = os.path.relpath(net / "tests" / "test_net.py", here)
    run = shlex.join(["pytest", *STARTED[started], "--graph-budget", test])
    commands = list(dict.fromkeys(COMMAND.findall(typed(run, here))))
    recorded = (net / "kept/tests/test_net.yaml").read_bytes()
    for command in commands:
        words = [SAYS[word] for word in SAYS if f" {word}" in command]
        said = typed(command, here)
        assert words
        assert all(word in said for word in words), (command, said)
        (net / "kept/tests/test_net.yaml").write_bytes(recorded)
    assert len(commands) == 4, commands
    assert "--graph-budget-prune" in commands[-1]


@pytest.mark.parametrize("started", sample(STARTED, [".."]))
def test_accept_in_ci_names_what_lies_where_pytest_was_started(started: str, net: Path) -> None:
    here = (net / started).resolve()
    test = os.path.relpath(net / "tests" / "test_net.py", here)
    report = "--graph-budget-report=out/graphs.json"
    run = shlex.join(["pytest", *STARTED[started], "--graph-budget", report, test])
    commands = COMMAND.findall(typed(run, here, CI="1"))
    one, new, whole = (command for command in commands if " accept " in command)
    for command, words in ((one, "~ test_known "), (new, "+ test_new "), (whole, "3 changes")):
        said = typed(f"{command} --dry-run", here)
        assert words in said, (command, said)
        assert (here / said.rpartition(" below ")[2][:-2]).samefile(net / "kept"), said


@pytest.mark.parametrize(
    ("arguments", "count"),
    [
        (["check", "graphs.json"], 3),
        (["explain", "graphs.json"], 1),
        (["explain", "no such reason"], 1),
    ],
    ids=lambda value: value[0] if isinstance(value, list) else "",
)
@pytest.mark.parametrize("start", sample(TOOLS, ["script"]))
def test_what_a_command_prints_can_be_pasted(
    arguments: list[str], count: int, start: str, project: Path
) -> None:
    command = TOOLS[start] + arguments
    shell = environment(start, project)
    one_lines = COMMAND.findall(piped(command, project, start))
    assert len(one_lines) == count, one_lines
    for columns in COLUMNS:
        held(terminal.run(command, project, shell, columns).text, one_lines, columns)


PROGRAM = "programs_of_the_house/encoders/transformer_encoder_with_its_head.py"
SCRIPT = """
import time

import torch


def encode(x):
    y = torch.sin(x)
    time.sleep(0)
    return y + 1


torch.compile(encode, backend="eager")(torch.ones(3))
"""


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory, server_of_forks: Server) -> Path:
    """A directory with a program that breaks."""
    path = tmp_path_factory.mktemp("checkout")
    (path / "commands").symlink_to(server_of_forks.directory)
    (path / "pytest.ini").write_text("[pytest]\n")
    (path / PROGRAM).parent.mkdir(parents=True)
    (path / PROGRAM).write_text(SCRIPT)
    return path


@pytest.mark.parametrize(
    ("arguments", "count"),
    [
        (["fix", PROGRAM], 2),
        pytest.param(
            *(["repro", PROGRAM, "--out", "scripts_of_the_house"], 0), marks=pytest.mark.nightly
        ),
    ],
    ids=lambda value: value[0] if isinstance(value, list) else "",
)
@pytest.mark.parametrize(
    "columns",
    [40, *(pytest.param(columns, marks=pytest.mark.nightly) for columns in COLUMNS[1:])],
)
def test_what_a_slow_command_prints_can_be_pasted(
    arguments: list[str], count: int, columns: int, checkout: Path
) -> None:
    """Its commands; and each path, node id and place stays one word."""
    command = ["graphbreak", *arguments]
    printed = piped(command, checkout, "script")
    one_lines = COMMAND.findall(printed)
    assert len(one_lines) == count, printed
    shown = terminal.run(command, checkout, environment("script", checkout), columns).text
    seen = re.sub(r"[^\n]*\x1b\[K", "", shown.replace("\r\n", "\n"))  # without the bar
    held(seen, one_lines, columns)
    lines = [line for line in printed.splitlines() if not line.startswith("[")]  # the bar in a pipe
    words = {word for word in " ".join(lines).split() if "/" in word or "::" in word}
    assert words
    assert words <= set(seen.replace("\\\n", "").split())
