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
from pytest_graphbreak.baseline.model import Document
from pytest_graphbreak.baseline.read import document, load
from tests.examples import examples

pytestmark = pytest.mark.pure

HEAD = 'version: 1\nprofile: cpu\ntorch: "2.9"\n'
FULL = """\
version: 1
profile: xla-cpu
torch: "2.9"
tests:
  test_mlp:
    graphs: {dynamo: 1, xla: 1}
  test_longformer:
    note: the global-attention flag is read back to Python
    graphs: {dynamo: 4, xla: 6}
    recompiles: {dynamo: 1}
    breaks:
      - reason: Unsupported Tensor.item() call with capture_scalar_outputs=False
        id: GB0124
        where: transformers/models/longformer/modeling_longformer.py::LongformerEncoder.forward
        code: is_global_attn = is_index_global_attn.flatten().any().item()
        count: 2
    eager:
      - where: a.py::f
    overrides:
      tt-n150:
        graphs: {xla: 7}
        recompiles: {dynamo: 0}
        breaks: []
  test_all_models:
    ungated: too slow
    cases:
      resnet/50-single_device-inference:
        graphs: {dynamo: 1, xla: 1}
      other:
        note: its own
        ungated: for itself
  TestBlock::test_forward:
    graphs: {dynamo: 1}
"""


def read(text: str) -> Document:
    return document(text, Path("base/test_a.yaml"), "test_a.py")


def entry(body: str) -> str:
    """A file with one entry; its body begins on line 6."""
    lines = "".join(f"    {line}\n" for line in body.splitlines())
    return f"{HEAD}tests:\n  test_a:\n{lines}"


REFUSED = [
    # what is wrong with the file as a whole
    ("", 1, "the file is empty"),
    ("# only a comment\n", 1, "the file is empty"),
    ("- a\n", 1, "the file must be a mapping"),
    ("just text\n", 1, "the file must be a mapping"),
    (HEAD, 1, "the file has no tests; add tests:"),
    ("profile: cpu\ntests: {}\n", 1, "the file has no version"),
    ("version: 1\ntests: {}\n", 1, "the file has no profile"),
    (HEAD + "tests:\n", 4, "tests must be a mapping of .*, not nothing"),
    (HEAD + "tests: []\n", 4, "tests must be a mapping .* not a list"),
    ("version: 2\nprofiles: cpu\ntests: {}\n", 1, "version 2 is not known"),
    ('version: "1"\nprofile: cpu\ntests: {}\n', 1, "version must be the number 1, not text"),
    ("version: true\nprofile: cpu\ntests: {}\n", 1, "version must be the number 1, not true or"),
    ("version: 1\nprofile: 3\ntests: {}\n", 2, 'profile must be text, not a number.*quote it: "3"'),
    ("version: 1\nprofile: ''\ntests: {}\n", 2, "profile is empty"),
    ("version: 1\nprofile: cpu\ntorch: 2.9\ntests: {}\n", 3, 'torch must be text.*quote it: "2.9"'),
    ("version: 1\nprofile: cpu\ntorch: new\ntests: {}\n", 3, "torch is 'new', no version"),
    (HEAD + "test: {}\n", 4, "the file has an unknown key 'test'; did you mean tests"),
    (
        HEAD + "zzz: 1\ntests: {}\n",
        4,
        "unknown key 'zzz'; allowed: version, profile, torch, jax, packages, tests",
    ),
    (HEAD + "profile: b\ntests: {}\n", 4, "duplicate key 'profile', first on line 2"),
    (HEAD + "tests: {}\n---\nversion: 1\n", 5, "a second YAML document"),
    # the YAML itself
    (HEAD + "<<<<<<< HEAD\ntests: {}\n=======\n", 4, "merge-conflict marker <<<<<<<; resolve"),
    (HEAD + "tests:\n  a: {}\n>>>>>>> theirs\n", 6, "merge-conflict marker >>>>>>>"),
    (HEAD + "tests:\n  a: {}\n=======\n  b: {}\n", 6, "merge-conflict marker ======="),
    (HEAD + "tests:\n\ttest_a: {}\n", 5, "a tab in the indentation"),
    (HEAD + "tests:\n  a: {\n", 6, "not valid YAML"),
    (HEAD + "tests:\n  a: {}\n b: {}\n", 6, "not valid YAML"),
    (HEAD + 'tests:\n  "a: {}\n', 6, "not valid YAML"),
    (HEAD + "tests:\n  a: &x {}\n", 5, r"an anchor \(&x\)"),
    (HEAD + "tests:\n  a: *x\n", 5, r"an alias \(\*x\)"),
    (HEAD + "tests:\n  &x a: {}\n", 5, r"an anchor \(&x\)"),
    (HEAD + "tests:\n  *x : {}\n", 5, r"an alias \(\*x\)"),
    (HEAD + "tests: !!map {}\n", 4, "a YAML tag"),
    (HEAD + "tests:\n  a: !!python/object/apply:os.system [true]\n", 5, "a YAML tag .*os.system"),
    (HEAD + "tests:\n  !!str a: {}\n", 5, "a YAML tag"),
    (entry("note: !secret x"), 6, r"a YAML tag \(!secret\)"),
    (HEAD + "tests:\n  ? [a, b]\n  : {}\n", 5, "a key that is a list or a mapping"),
    (HEAD + "tests:\n  <<: {}\n", 5, "the key << is not text in YAML"),
    (HEAD + "tests:\n  1: {}\n", 5, 'the key 1 is not text in YAML; quote it: "1"'),
    (HEAD + "tests:\n  yes: {}\n", 5, 'quote it: "yes"'),
    (HEAD + "tests:\n  ?\n  : {}\n", 5, "is not text in YAML"),
    (HEAD + "tests:\n  : {}\n", 5, "not valid YAML"),
    (HEAD + "tests: " + "[" * 40, 4, "nested more than 16 deep"),
    (HEAD + "tests:\n  a: \x07\n", 5, r"the character U\+0007 is not allowed"),
    (HEAD + "tests:\n  a: \x00\n", 5, r"the character U\+0000 is not allowed"),
    # entries
    (HEAD + "tests:\n  test_a:\n", 5, "'test_a' must be a mapping of .*, not nothing"),
    (HEAD + "tests:\n  test_a: 3\n", 5, "'test_a' must be a mapping .* not a number"),
    (HEAD + 'tests:\n  "": {}\n', 5, "tests has a key without a name; name it"),
    (HEAD + "tests:\n  a: {}\n  b: {}\n  'a': {}\n", 7, "duplicate key 'a', first on line 5"),
    (entry("grphs: {dynamo: 1}"), 6, "'test_a' has an unknown key 'grphs'; did you mean graphs"),
    (entry("graphs: 3"), 6, "graphs must be a mapping of layers"),
    (entry("graphs: {vulkan: 1}"), 6, "unknown layer 'vulkan'; allowed: dynamo, xla, tt, jax"),
    (entry("graphs: {dynmo: 1}"), 6, "unknown layer 'dynmo'; did you mean dynamo"),
    (entry("graphs:\n  xla: 1\n  xla: 1"), 8, "duplicate key 'xla', first on line 7"),
    (entry("graphs: {xla: -1}"), 6, r"graphs of xla is negative \(-1\)"),
    (entry("graphs: {xla: true}"), 6, "must be a whole number, not true or false"),
    (entry("graphs: {xla: 1.5}"), 6, "must be a whole number, not a number"),
    (entry("graphs: {xla: '1'}"), 6, "must be a whole number, not text"),
    (entry("graphs: {xla: }"), 6, "must be a whole number, not nothing"),
    (entry("graphs: {xla: 0x10}"), 6, "graphs of xla is '0x10', no count; write it in decimal"),
    (entry("graphs: {xla: 010}"), 6, "no count"),
    (entry("graphs: {xla: 1_000}"), 6, "no count"),
    (entry("graphs: {xla: 1:30}"), 6, "no count"),
    (entry("graphs: {xla: " + "9" * 5000 + "}"), 6, "no count"),
    (entry("recompiles: [1]"), 6, "recompiles must be a mapping of layers.* not a list"),
    (entry("note: [a]"), 6, "note must be text, not a list"),
    (entry("note:"), 6, "note must be text, not nothing"),
    (entry("note: 2024-01-01"), 6, 'note must be text, not a date.*quote it: "2024-01-01"'),
    (entry("ungated: true"), 6, "ungated must be text, not true or false"),
    (entry("ungated: ' '"), 6, "ungated is empty"),
    (entry("torch: 2"), 6, "torch must be text"),
    (entry("cases: {}"), 6, "cases is empty; delete the test"),
    (entry("cases: [a]"), 6, "cases must be a mapping of parameter ids"),
    (entry("cases:\n  a: {}\n  a: {}"), 8, "duplicate key 'a', first on line 7"),
    (entry("cases:\n  a: {}\ngraphs: {xla: 1}"), 8, "'test_a' has both cases and graphs"),
    (entry("cases:\n  a: {}\nprofile: b"), 8, "has both cases and profile"),
    (entry("cases:\n  a: {}\ncase: {}"), 8, "unknown key 'case'; did you mean cases"),
    (entry("cases:\n  a:\n    cases: {b: {}}"), 8, "the case 'a' has an unknown key 'cases'"),
    (entry("cases:\n  1: {}"), 7, "the key 1 is not text in YAML"),
    # places
    (entry("breaks: {where: a}"), 6, "breaks must be a list of places"),
    (entry("causes: {layer: xla}"), 6, "causes must be a list of causes, not a mapping"),
    (entry("causes:\n- cause: split"), 7, "an item of causes has no layer; add layer:"),
    (entry("causes:\n- layer: xla"), 7, "an item of causes has no cause; add cause:"),
    (entry("breaks:\n- a"), 7, "an item of breaks must be a mapping"),
    (entry("breaks:\n- code: x"), 7, "an item of breaks has no where"),
    (entry("breaks:\n- where: a\n  line: 3"), 8, "an item of breaks has an unknown key 'line'"),
    (entry("breaks:\n- where: a\n  layer: xla"), 8, "layer is 'xla'; allowed: dynamo, jax"),
    (entry("breaks:\n- where: a\n  count: 0"), 8, "count is 0; leave it out, or 1 or more"),
    (entry("breaks:\n- where: 3"), 7, "where must be text"),
    (entry("breaks:\n- where: a\n  id: 12"), 8, "id must be text"),
    (entry("breaks:\n- where: a\n  reason: null"), 8, "reason must be text, not nothing"),
    (entry("eager:\n- where: a\n- where: b\n- where: a"), 9, "same place twice.* on line 7"),
    (
        entry("breaks:\n- where: a\n  code: x  =  1\n- where: a\n  code: x = 1"),
        9,
        "the same place twice in breaks",
    ),
    # overrides
    (entry("overrides: [a]"), 6, "overrides must be a mapping of profiles"),
    (entry("overrides:\n  tt: 3"), 7, "the override 'tt' must be a mapping"),
    (entry("overrides:\n  tt:\n    note: a"), 8, "the override 'tt' has an unknown key 'note'"),
    (entry("overrides:\n  tt:\n    graphs: {xla: -3}"), 8, "negative"),
    (entry("overrides:\n  '': {}"), 7, "overrides has a key without a name"),
    (entry("overrides:\n  tt: {}\n  tt: {}"), 8, "duplicate key 'tt'"),
]


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
    mlp = document.entry("test_mlp", None)
    assert mlp is not None
    assert mlp.values == Values(graphs={"dynamo": 1, "xla": 1})
    assert (mlp.nodeid, mlp.line, mlp.note) == ("test_a.py::test_mlp", 5, None)
    longformer = document.entry("test_longformer", None)
    assert longformer is not None
    assert longformer.values is not None
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
    case = document.entry("test_all_models", "resnet/50-single_device-inference")
    assert case is not None
    assert (case.ungated, case.line) == ("too slow", 27)
    other = document.entry("test_all_models", "other")
    assert other is not None
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
    found = read(f"{HEAD}tests:\n  test_a: {body}\n").entry("test_a", None)
    assert found is not None
    assert found.values == values


def test_what_takes_a_test_out_of_the_gate_holds_for_its_cases() -> None:
    document = read(HEAD + "tests:\n  a: {ungated: slow}\n  b: {note: x}\n")
    found = document.entry("a", "case")
    assert found is not None
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


@given(st.text())
@examples(200)
def test_any_text_is_refused(text: str) -> None:
    with pytest.raises(BaselineError):
        read(text)


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
