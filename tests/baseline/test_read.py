"""What is refused in a baseline file, with file and line; and what is read."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from pytest_graphbreak.baseline import BaselineError, BaselinePlace, Baselines, Values, tree
from pytest_graphbreak.baseline.files import LARGEST
from pytest_graphbreak.baseline.model import Document, Entry
from pytest_graphbreak.baseline.read import document, load
from tests.baseline.refused import FULL, HEAD, REFUSED
from tests.examples import examples

pytestmark = pytest.mark.pure


def read(text: str) -> Document:
    return document(text, Path("base/test_a.yaml"), "test_a.py")


def entry_of(document: Document, test: str, case: str | None = None) -> Entry:
    return document.entry(test, case)


@pytest.mark.parametrize("loader", ["c", "python"])
@pytest.mark.parametrize(("text", "line", "message"), REFUSED)
def test_what_is_refused(
    text: str, line: int, message: str, loader: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if loader == "python":
        import yaml

        monkeypatch.setattr("pytest_graphbreak.baseline.tree._Loader", yaml.SafeLoader)
    with pytest.raises(BaselineError, match=message) as raised:
        read(text)
    assert (raised.value.path, raised.value.line) == (Path("base/test_a.yaml"), line)
    assert str(raised.value).startswith(f"base/test_a.yaml:{line}: ")
    assert raised.value.step, "every message ends with what to do"


@pytest.mark.parametrize(("text", "line", "message"), REFUSED)
def test_what_is_refused_with_other_line_ends(text: str, line: int, message: str) -> None:
    with pytest.raises(BaselineError, match=message) as raised:
        read("\ufeff" + text.replace("\n", "\r\n"))
    assert raised.value.line == line


def test_a_whole_file() -> None:
    document = read(FULL)
    assert (document.profile, document.versions) == ("xla-cpu", {"torch": "2.9"})
    mlp = entry_of(document, "test_mlp")
    assert mlp.values == Values(graphs={"dynamo": 1, "xla": 1})
    assert (mlp.nodeid, mlp.line, mlp.note) == ("test_a.py::test_mlp", 5, None)
    longformer = entry_of(document, "test_longformer")
    assert longformer.values.breaks == (
        BaselinePlace(
            "transformers/models/longformer/modeling_longformer.py::LongformerEncoder.forward",
            "is_global_attn = is_index_global_attn.flatten().any().item()",
            2,
            "Unsupported Tensor.item() call with capture_scalar_outputs=False",
            "GB0124",
        ),
    )
    assert longformer.values.eager == (BaselinePlace("a.py::f", ""),)
    override = longformer.overrides["tt-n150"]
    assert override.values == Values({"xla": 7}, {"dynamo": 0})
    assert override.named == {"breaks"}
    case = entry_of(document, "test_all_models", "resnet/50-single_device-inference")
    assert (case.ungated, case.line) == ("too slow", 27)
    other = entry_of(document, "test_all_models", "other")
    assert (other.ungated, other.note, other.values) == ("for itself", "its own", None)
    assert [entry.nodeid.partition("::")[2] for entry in document.entries()] == [
        "test_mlp",
        "test_longformer",
        "test_all_models[resnet/50-single_device-inference]",
        "test_all_models[other]",
        "TestBlock::test_forward",
    ]
    assert document.entry("test_mlp", "case") is None
    assert document.entry("test_gone", None) is None


@pytest.mark.parametrize(
    ("body", "values"),
    [
        ("{}", Values()),
        ("{note: a}", Values()),
        ("{graphs: {}}", Values()),
        ("{ungated: a}", None),
        ("{overrides: {tt: {graphs: {tt: 1}}}}", None),
        ("{overrides: {tt: {graphs: {tt: 1}}}, graphs: {}}", Values()),
        ("{ungated: a, breaks: []}", Values()),
    ],
)
def test_when_an_entry_has_plain_values(body: str, values: Values | None) -> None:
    """What is zero is left out, and an entry may hold overrides only."""
    found = entry_of(read(f"{HEAD}tests:\n  test_a: {body}\n"), "test_a")
    assert found.values == values


def test_what_takes_a_test_out_of_the_gate_holds_for_its_cases() -> None:
    document = read(HEAD + "tests:\n  a: {ungated: slow}\n  b: {note: x}\n")
    found = entry_of(document, "a", "case")
    assert (found.ungated, found.values, found.line) == ("slow", None, 5)
    assert document.entry("b", "case") is None


def test_line_ends_and_byte_order_mark() -> None:
    for text in (FULL.replace("\n", "\r\n"), "\ufeff" + FULL, FULL.rstrip("\n"), f"---\n{FULL}..."):
        assert read(text).tests == read(FULL).tests


def test_keys_of_any_length() -> None:
    for length in (127, 128, 129, 1000, 2000):
        text = f"{HEAD}tests:\n  test_a:\n    cases:\n      ? {'x' * length}\n      : {{}}\n"
        assert read(text).entry("test_a", "x" * length) is not None


# files


def write(directory: Path, text: str | bytes, name: str = "test_a.yaml") -> Path:
    path = directory / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


@pytest.mark.parametrize(
    ("data", "line", "message"),
    [
        (HEAD.encode() + b"tests:\n  a: {note: \xff}\n", 5, r"is not UTF-8 \(byte 0xff\)"),
        (HEAD.encode("utf-16"), 1, "is not UTF-8"),
        (b"\x7fELF\x02\x01\x00\x00\n\x00", 1, "is not allowed in a YAML file"),
        (b"", 1, "the file is empty"),
    ],
)
def test_bytes_that_are_no_text(tmp_path: Path, data: bytes, line: int, message: str) -> None:
    write(tmp_path, data)
    with pytest.raises(BaselineError, match=message) as raised:
        Baselines(tmp_path).check()
    assert raised.value.line == line


def test_an_error_that_names_no_place_is_reported_without_one() -> None:
    error = tree._yaml_error(yaml.YAMLError("odd\nmore"), "a: 1")
    assert str(error).startswith("not valid YAML: odd; correct it")


def test_a_file_that_is_too_large(tmp_path: Path) -> None:
    path = write(tmp_path, FULL)
    os.truncate(path, LARGEST + 1)  # sparse: takes no room
    with pytest.raises(BaselineError, match="is larger than 32 MiB, and is not read"):
        Baselines(tmp_path).check()


def test_what_is_no_file(tmp_path: Path) -> None:
    (tmp_path / "test_d.yaml").mkdir()
    Baselines(tmp_path).check()
    with pytest.raises(BaselineError, match=r"test_d\.yaml: (cannot be read|is no regular file)"):
        Baselines(tmp_path).entry("test_d.py::test")
    os.mkfifo(tmp_path / "test_p.yaml")
    with pytest.raises(BaselineError, match=r"test_p\.yaml: is no regular file"):
        Baselines(tmp_path).check()


def test_nothing_there(tmp_path: Path) -> None:
    missing = Baselines(tmp_path / "none")
    missing.check()
    assert missing.entry("tests/test_a.py::test") is None
    assert missing.files() == []
    file = write(tmp_path, "text", "baselines")
    with pytest.raises(BaselineError, match="is no directory"):
        Baselines(file).check()


def test_check_names_every_bad_file(tmp_path: Path) -> None:
    write(tmp_path, FULL, "tests/test_good.yaml")
    write(tmp_path, "version: 3\n", "tests/test_bad.yaml")
    write(tmp_path, "", "test_worse.yaml")
    write(tmp_path, "anything: goes\n", "notes.yml")
    with pytest.raises(BaselineError) as raised:
        Baselines(tmp_path).check()
    assert len(str(raised.value).splitlines()) == 2
    assert "test_bad.yaml:1: version 3" in str(raised.value)
    assert "test_worse.yaml:1: the file is empty" in str(raised.value)


def test_a_file_that_mirrors_no_test_is_checked_and_no_more(tmp_path: Path) -> None:
    write(tmp_path, FULL, "a\\b.yaml")
    write(tmp_path, FULL, "Makefile.yaml")
    baselines = Baselines(tmp_path)
    baselines.check()
    assert baselines.files() == ["Makefile.py"]
    write(tmp_path, "version: 9", "a\\b.yaml")
    with pytest.raises(BaselineError, match="version 9"):
        Baselines(tmp_path).check()


def test_a_file_is_read_once(tmp_path: Path) -> None:
    path = write(tmp_path, FULL)
    baselines = Baselines(tmp_path)
    assert baselines.entry("test_a.py::test_mlp") is not None
    path.unlink()
    assert baselines.entry("test_a.py::test_mlp") is not None


# untrusted input

PIECES = st.sampled_from(
    [
        *"\n\r\t :-[]{},#&*!|>'\"%@`?\0\x85\u2028\ufeff",
        *("  ", "test_a:", "version: 1", "- ", "...", "---", "graphs: {dynamo: 1}", "<<<<<<< "),
        *("cases:", "breaks:", "é", "<<: ", "{", "[[[[[[[[[[[[[[["),
    ]
)


@given(st.integers(0, len(FULL)), st.integers(0, 30), st.lists(PIECES, max_size=4).map("".join))
@examples(400)
def test_a_damaged_file_is_refused_or_read(at: int, cut: int, piece: str) -> None:
    text = FULL[:at] + piece + FULL[at + cut :]
    try:
        found = read(text)
    except BaselineError as refused:
        error = refused
    else:
        assert all(entry.test for entry in found.entries())
        return
    lines = len(re.split("\r\n|[\n\r\x85\u2028\u2029]", text))  # as YAML counts them
    assert error.line is None or 1 <= error.line <= lines
    assert error.message
    assert error.step


def test_a_file_that_was_cut_off_in_a_place(tmp_path: Path) -> None:
    """What is left of a ``code:`` is another place, so the verdict would only be ``changed``."""
    path = tmp_path / "test_a.yaml"
    text = (
        "version: 1\nprofile: cpu\ntests:\n  test_b:\n    graphs: {dynamo: 2}\n    breaks:\n"
        "      - reason: Unsupported\n        where: a.py::f\n        code: if x.item() > 0.5\n"
    )
    path.write_text(text)
    assert load(path, "test_a.py") is not None
    first = text.index("breaks:")
    for length in range(first + len("breaks:"), len(text)):
        if text[length - 1] == "\n":
            continue  # whole lines that say less are as good as any
        path.write_text(text[:length])
        with pytest.raises(BaselineError) as raised:
            load(path, "test_a.py")
        assert raised.value.line is not None
    assert "ends in the middle of a line" in str(raised.value)
    assert "take it from git again" in str(raised.value)
