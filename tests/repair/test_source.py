"""Files as their users have them: encodings, ends of lines, names that are taken."""

from __future__ import annotations

import codecs
import os
from pathlib import Path

import pytest
import torch
import torch._dynamo.config

from pytest_graphbreak.cli import fix
from pytest_graphbreak.model.items import Frame
from pytest_graphbreak.repair.remedies import compiling, enable
from pytest_graphbreak.repair.remedies.tree import rewriting
from pytest_graphbreak.repair.sources import headed, lines, read
from pytest_graphbreak.repair.target import Target, TargetError, parse
from pytest_graphbreak.text import files
from pytest_graphbreak.text.errors import UserError

pytestmark = pytest.mark.once

SETTING = compiling.SCALARS.change
TEXT = "import torch\n\nx = 'né'  # kept\n"


@pytest.mark.parametrize(
    ("data", "encoding", "newline"),
    [
        (TEXT.encode(), "utf-8", "\n"),
        (codecs.BOM_UTF8 + TEXT.encode(), "utf-8-sig", "\n"),
        (TEXT.replace("\n", "\r\n").encode(), "utf-8", "\r\n"),
        (b"#!/usr/bin/python\n# -*- coding: latin-1 -*-\n" + TEXT.encode("latin-1"),
         "iso-8859-1", "\n"),
        (TEXT.replace("\n", "\r").encode(), "utf-8", "\r"),
    ],
)  # fmt: skip
def test_a_file_keeps_its_encoding_and_the_ends_of_its_lines(
    data: bytes, encoding: str, newline: str, tmp_path: Path
) -> None:
    path = tmp_path / "a.py"
    path.write_bytes(data)
    source = read(parse(str(path)).path)
    assert (source.encoding, source.newline) == (encoding, newline)
    assert source.encode(source.text) == data
    text = SETTING(source.text)
    patched = source.encode(headed(text, f"{files.HEADER}fix й`"))
    path.write_bytes(patched)
    assert files.is_ours(path)
    assert read(path).encoding == encoding
    names: dict[str, str] = {}
    with torch._dynamo.config.patch(capture_scalar_outputs=False):  # as it was, for later tests
        exec(compile(patched, "a.py", "exec"), names | {"__name__": "other"}, names)
    assert names["x"] == "né"
    if newline == "\r\n":
        assert patched.count(b"\n") == patched.count(b"\r\n")


def test_lines_are_counted_as_python_counts_them() -> None:
    code = "torch._dynamo.graph_break()"
    source = f"import torch\n\x0c\ndef f(x):\n    y = '\x0b \x1c'\n    {code}\n    return x\n"
    text = rewriting(enable.no_break, Frame("a.py", "f", 5, code))(source)
    assert text == source.replace(f"    {code}\n", "")
    assert len(lines("a\x0cb\x1cc\nd")) == 2


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"x = '\xff'\n", "not valid Python"),
        (b"# coding: nonsense\nx = 1\n", "unknown encoding: nonsense"),
        (b"x = 1\x00\n", "null bytes"),
    ],
)
def test_what_is_no_text_is_a_clear_error(data: bytes, words: str, tmp_path: Path) -> None:
    with pytest.raises(TargetError, match="no such file; give a script"):
        parse(str(tmp_path / "a.py"))
    (tmp_path / "a.py").write_bytes(data)
    with pytest.raises(TargetError, match=words):
        parse(str(tmp_path / "a.py"))


@pytest.mark.parametrize(
    ("name", "test", "fixed"),
    [
        ("model.py", "", "model_fixed.py"),
        ("test_model.py", "test_a", "model_fixed.py"),
        ("model_test.py", "test_a", "model_fixed.py"),
        ("test_model.py", "", "model_fixed.py"),  # run as a script; it would be collected, too
        ("models.py", "test_a", "models_fixed.py"),
        ("tests.py", "test_a", "a_tests_fixed.py"),
        ("test_test_a.py", "test_a", "a_fixed.py"),
        ("testing.py", "test_a", "a_testing_fixed.py"),
        ("latest.py", "", "latest_fixed.py"),
    ],
)
def test_what_is_written_for_a_test_has_no_name_that_pytest_collects(
    name: str, test: str, fixed: str
) -> None:
    assert Target(Path(name), test).beside("_fixed").path == Path(fixed)


def test_only_files_of_ours_are_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Found out before the program runs: it is not even started."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.py").write_text("raise SystemExit('it ran')\n")
    target, fixed = Target(Path("a.py")), tmp_path / "a_fixed.py"
    fix._check_free(target.beside("_fixed").path)
    fixed.write_text("mine = 1\n")
    with pytest.raises(UserError, match=r"a_fixed\.py is not written by graphbreak"):
        fix._check_free(target.beside("_fixed").path)
    fixed.unlink()
    (tmp_path / "ours.py").write_text(f"# {files.HEADER}fix a.py`: ...\n")
    for goal in ("ours.py", "nowhere.py"):
        fixed.symlink_to(goal)
        with pytest.raises(UserError, match=r"a_fixed\.py is a symlink"):
            fix._check_free(target.beside("_fixed").path)
        fixed.unlink()
    (tmp_path / "ours.py").rename(fixed)
    fix._check_free(target.beside("_fixed").path)
    long = Target(Path(f"{'a' * 250}.py"))
    with pytest.raises(UserError, match="cannot be written: File name too long"):
        fix._check_free(long.beside("_fixed").path)
    assert sorted(os.listdir(tmp_path)) == ["a.py", "a_fixed.py"]
