"""Names of places: the same on every machine, and the names that Python itself gives."""

from __future__ import annotations

import linecache
import os
import sys
import sysconfig
import textwrap
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from types import CodeType

import pytest

from pytest_graphbreak.model.items import Frame
from pytest_graphbreak.model.places import Places, function_name, is_resume

pytestmark = pytest.mark.pure

Write = Callable[[str, str], str]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "repo").mkdir()
    return tmp_path / "repo"


@pytest.fixture
def places(root: Path) -> Places:
    return Places(root)


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Write a source file below the temporary directory, give back its absolute path."""

    def write(name: str, source: str = "x = 1\n") -> str:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(source), encoding="utf-8")
        return str(path)

    return write


# Files.


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("repo/models/head.py", "models/head.py"),
        ("repo/tests/torch/test_yolo.py", "tests/torch/test_yolo.py"),
        ("venv/lib/python3.11/site-packages/transformers/t5.py", "transformers/t5.py"),
        ("repo/.venv/lib/python3.11/site-packages/timm/layers.py", "timm/layers.py"),
        ("usr/lib/python3/dist-packages/einops.py", "einops.py"),
        ("elsewhere/script.py", "script.py"),
        ("repo/transformers_modules/org/net/3f2504e04f8911d39a0c0305e82c3301/m.py",
         "transformers_modules/org/net/m.py"),
        ("repo/transformers_modules/a/_0123456789abcdef/m.py", "transformers_modules/a/m.py"),
        ("repo/runs/20240101123000/m.py", "runs/20240101123000/m.py"),
        ("repo/facade/m.py", "facade/m.py"),
        ("repository/m.py", "m.py"),
    ],
)  # fmt: skip
def test_files_have_one_name(places: Places, write: Write, path: str, name: str) -> None:
    file = write(path, "")
    assert places.file(file) == name
    assert places.file(file) == name


def test_the_longest_entry_of_sys_path_counts(
    places: Places, write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = write("cache/modules/transformers_modules/org/m.py", "")
    monkeypatch.setattr(sys, "path", [str(tmp_path), str(tmp_path / "cache" / "modules"), "/"])
    assert places.file(file) == "transformers_modules/org/m.py"


def test_the_root_counts_before_sys_path(
    places: Places, write: Write, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "path", [str(root / "src")])
    assert places.file(write("repo/src/m.py", "")) == "src/m.py"


def test_a_file_of_nowhere_is_named_from_its_package(places: Places, write: Write) -> None:
    write("far/net/__init__.py", "")
    write("far/net/layers/__init__.py", "")
    assert places.file(write("far/net/layers/head.py", "")) == "net/layers/head.py"


def test_relative_names_and_links_are_followed(
    places: Places, write: Write, tmp_path: Path, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write("repo/models/head.py", "")
    monkeypatch.chdir(root)
    assert places.file(os.path.join("models", "head.py")) == "models/head.py"
    (tmp_path / "link").symlink_to(root)
    assert places.file(str(tmp_path / "link" / "models" / "head.py")) == "models/head.py"
    assert Places(tmp_path / "link").file(str(root / "models" / "head.py")) == "models/head.py"


@pytest.mark.parametrize(
    ("file", "name"),
    [
        ("<string>", "<string>"),
        ("<stdin>", "<stdin>"),
        ("<doctest models.head[3]>", "<doctest models.head[3]>"),
        ("<ipython-input-7-9f8e7d6c5b4a>", "<ipython-input-7>"),
        ("/tmp/ipykernel_4242/1234567890.py", "<notebook>"),
        ("<eval_with_key>.17", "<eval_with_key>"),
        ("<lambdifygenerated-0x7f00aa>", "<lambdifygenerated-0x...>"),
        ("", "<unknown>"),
        ("/models/\0head.py", "/models/\0head.py"),  # a log can hold anything
        ("/models/\ud800.py", "/models/\ud800.py"),
    ],
)
def test_what_is_no_file_has_a_stable_name(places: Places, file: str, name: str) -> None:
    assert places.file(file) == name


# Functions, in one file of source.

SOURCE = """
    import functools

    def top(x):
        def inner(y):
            return [z for z in (lambda w: w)(y)]
        return inner

    class Head:
        scale = 1

        class Inner:
            def forward(self): pass

        @property
        @functools.lru_cache(maxsize=None)
        def size(self):
            return (a for a in range(3))

        def forward(self, x=lambda: 0):
            async def later():
                return {k: v for k, v in x}
            return later

    def top(x):
        return x
"""


@pytest.fixture
def file(write: Write) -> str:
    return write("repo/m.py", SOURCE)


def _codes(code: CodeType) -> Iterator[CodeType]:
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield constant
            yield from _codes(constant)


@pytest.mark.skipif(sys.version_info < (3, 11), reason="code objects know it since 3.11")
def test_functions_have_the_name_that_python_gives(places: Places, file: str) -> None:
    code = compile(Path(file).read_text(), file, "exec")
    found = {
        c.co_qualname: places.frame(file, c.co_firstlineno, c.co_name).function
        for c in _codes(code)
        if not c.co_name.endswith("comp>")
    }
    assert len(found) > 10
    assert found == {name: name for name in found}


def test_a_comprehension_is_a_line_of_its_function(places: Places, file: str) -> None:
    assert places.frame(file, 6, "<listcomp>").function == "top.<locals>.inner"
    assert places.frame(file, 22, "<dictcomp>").function == "Head.forward.<locals>.later"
    assert places.frame("<string>", 1, "<listcomp>").function == "<listcomp>"


def test_the_innermost_function_around_a_line(places: Places, file: str) -> None:
    assert places.frame(file, 6, "inner").function == "top.<locals>.inner"
    assert places.frame(file, 7, "top").function == "top"
    assert places.frame(file, 6).function == "top.<locals>.inner"
    assert places.frame(file, 2).function == "<module>"
    assert places.frame(file, 2, "<module>").function == "<module>"
    assert places.frame(file, 27, "top").line == 27


def test_the_def_of_a_decorated_function(places: Places, file: str) -> None:
    for line in (15, 16, 17, 18):
        assert places.definition(file, line, "size") == Frame(
            "m.py", "Head.size", 17, "def size(self):"
        )


@pytest.mark.parametrize(
    ("name", "function", "resume"),
    [
        ("torch_dynamo_resume_in_forward_at_12", "forward", True),
        ("torch_dynamo_resume_in_<lambda>_at_3", "<lambda>", True),
        ("torch_dynamo_resume_in_torch_dynamo_resume_in_f_at_1_at_2", "f", True),
        ("torch_dynamo_resume_in_look_at_me_at_7", "look_at_me", True),
        ("forward", "forward", False),
        ("", "", False),
    ],
)
def test_the_rest_of_a_function_is_that_function(name: str, function: str, resume: bool) -> None:
    assert function_name(name) == function
    assert is_resume(name) is resume


def test_a_resumed_method_has_its_class(places: Places, file: str) -> None:
    frame = places.frame(file, 21, "torch_dynamo_resume_in_forward_at_20")
    assert frame == Frame("m.py", "Head.forward", 21, "async def later():")


# Source text.


def test_code_that_the_caller_knows_wins(places: Places, file: str) -> None:
    assert places.frame(file, 4, "top", code="  def top(old):  ").code == "def top(old):"


def test_a_file_that_is_gone_keeps_the_bare_name(places: Places, root: Path) -> None:
    assert places.frame(str(root / "gone.py"), 7, "f") == Frame("gone.py", "f", 7, "")
    assert places.frame(str(root / "gone.py"), 0) == Frame("gone.py", "", 0, "")


def test_a_line_past_the_end_and_a_name_that_is_not_there(places: Places, file: str) -> None:
    assert places.frame(file, 999, "f") == Frame("m.py", "f", 999, "")
    assert places.frame(file, -3, "f").line == 0
    assert places.frame(file, 4, "wrapper").function == "wrapper"


@pytest.mark.parametrize("source", [b"def f(:\n    pass\n", b"x = '\xff\xfe'\n", b"\0\0", b""])
def test_a_text_that_is_no_python(places: Places, write: Write, source: bytes) -> None:
    file = write("repo/m.py", "")
    Path(file).write_bytes(source)
    frame = places.frame(file, 1, "f")
    assert (frame.file, frame.function, frame.line) == ("m.py", "f", 1)


def test_a_file_that_changed_is_read_again(places: Places, write: Write) -> None:
    file = write("repo/m.py", "def f():\n    return 1\n")
    assert places.frame(file, 2, "f").code == "return 1"
    write("repo/m.py", "class A:\n    def f():\n        return 22\n")
    assert places.frame(file, 3, "f") == Frame("m.py", "A.f", 3, "return 22")


def test_text_that_only_linecache_has(places: Places) -> None:
    name = "<doctest models.head[0]>"
    linecache.cache[name] = (20, None, ["def f(x):\n", "    return x\n"], name)
    try:
        assert places.frame(name, 2, "f") == Frame(name, "f", 2, "return x")
    finally:
        del linecache.cache[name]


def test_a_very_deep_source_is_no_error(places: Places, write: Write) -> None:
    file = write("repo/m.py", "x = " + "(" * 150 + "1" + ")" * 150 + "\n" + "-" * 5000 + "1\n")
    assert places.frame(file, 1).code.startswith("x = (((")


# Whose code it is.


def test_users_files(places: Places, write: Write) -> None:
    for name in ("repo/m.py", "repo/tests/torch/test_a.py", "x/site-packages/transformers/m.py"):
        assert places.is_user(write(name, "")), name
    for name in ("<string>", "<stdin>", "<doctest a[0]>", "<ipython-input-1-abcdef>"):
        assert places.is_user(name), name


def test_machinery(places: Places) -> None:
    import pytest_graphbreak

    assert not places.is_user(str(Path(sysconfig.get_path("stdlib")) / "contextlib.py"))
    assert not places.is_user(str(Path(sysconfig.get_path("scripts")) / "pytest"))
    assert not places.is_user(pytest_graphbreak.__file__)
    for package in ("torch/nn/modules/module.py", "_pytest/python.py", "pluggy/_hooks.py",
                    "torch_xla/core.py", "torchgen/x.py"):  # fmt: skip
        assert not places.is_user(f"/env/lib/python3.11/site-packages/{package}"), package
    for name in ("<frozen importlib._bootstrap>", "<eval_with_key>.3", "<attrs generated init A>",
                 ""):  # fmt: skip
        assert not places.is_user(name), name


@pytest.mark.graph_budget(gate=False, reason="puts a torch_xla of its own into sys.modules")
def test_a_library_in_a_checkout_is_machinery(
    places: Places, write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    from types import ModuleType

    file = write("src/torch_xla/__init__.py", "")
    module = ModuleType("torch_xla")
    module.__file__ = file
    monkeypatch.setitem(sys.modules, "torch_xla", module)
    assert not places.is_user(write("src/torch_xla/core/model.py", ""))
    assert places.is_user(write("src/models/model.py", ""))


# Test infrastructure.


def test_infrastructure_is_passed_over_and_named_all_the_same(places: Places, write: Write) -> None:
    runner = write("repo/tests/infra/run.py", "def run():\n    pass\n")
    beside = write("repo/tests/infrared.py", "x = 1\n")
    assert places.is_user(runner)
    places.pass_over(["tests/infra"])
    assert not places.is_user(runner)
    assert places.is_written(runner)
    assert places.is_user(beside)
    assert places.frame(runner, 2).file == "tests/infra/run.py"
    places.pass_over([])
    assert places.is_user(runner)


def test_infrastructure_behind_a_link_is_passed_over(
    places: Places, write: Write, root: Path, tmp_path: Path
) -> None:
    runner = write("elsewhere/infra/run.py", "")
    (root / "infra").symlink_to(tmp_path / "elsewhere" / "infra")
    places.pass_over(["infra"])
    assert not places.is_user(runner)
    assert not places.is_user(str(root / "infra" / "run.py"))


def test_a_source_with_an_unknown_escape_warns_nobody(places: Places, write: Write) -> None:
    """Under ``-W error`` the warning would be an error, and the function have no name."""
    file = write("models/escape.py", 'class Net:\n    def forward(self):\n        return "\\d"\n')
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert places.frame(str(file), 3, "forward").function == "Net.forward"
