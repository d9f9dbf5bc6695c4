"""A file that is recognised says what reading it in full says; any other is read in full."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_graphbreak.baseline import BaselineError, Baselines, quick, render
from pytest_graphbreak.baseline.quick import load, recognised
from pytest_graphbreak.baseline.read import document
from pytest_graphbreak.model.layers import CAUSES, LAYERS
from tests.drawn import examples

PATH = Path("base/test_a.yaml")

PLAIN = ["f", "Model.forward", "test_it.py::f", "yes or no", "it's", 'print("a")', "x = [1, 2]"]
PLAIN += ["y1", "models/a.py", "models/a.py::g", "no gradient", "a, count: 3", "x: int", "{a: 1}"]
WORDS = ["yes", "no", "null", "True", "y", "1", "1.5", "- a", "a #b", "a  b", "a\nb", "x" * 300]
WORDS += [" a", "a ", "\\", "'", '"', "---", "<<", "#", "?", "a:", ": a", "2024-01-01", "é"]
TEXTS = st.sampled_from(PLAIN) | st.sampled_from(WORDS) | st.text(min_size=1, max_size=8)
NAMES = st.sampled_from(["forward", "g", "Head.<locals>.f", "n", "norm", "<lambda>", "a b"]) | TEXTS
COUNTS = st.dictionaries(st.sampled_from(LAYERS), st.integers(0, 300), max_size=3)


@st.composite
def causes(draw: st.DrawFn) -> dict[str, Any]:
    layer = draw(st.sampled_from(LAYERS))
    found: dict[str, Any] = {"layer": layer, "cause": draw(st.sampled_from(CAUSES[layer]))}
    return {**found, **draw(optional(where=TEXTS, code=TEXTS, count=st.integers(1, 20)))}


def optional(**fields: Any) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries({}, optional=fields)


PLACES = st.builds(
    lambda where, rest: {"where": where, **rest},
    TEXTS,
    optional(reason=TEXTS, id=st.just("GB0123") | TEXTS, code=TEXTS, count=st.integers(1, 20)),
)
MEASURED: dict[str, Any] = {
    "torch": st.sampled_from(["2.9", "2.13"]),
    "graphs": COUNTS,
    "recompiles": COUNTS,
    "ops": COUNTS,
    "functions": st.dictionaries(
        NAMES, st.dictionaries(NAMES, st.integers(0, 99), min_size=1, max_size=3), max_size=2
    ),
    "causes": st.lists(causes(), max_size=3),
    "breaks": st.lists(PLACES, max_size=2),
    "eager": st.lists(PLACES, max_size=2),
}
REMARKS: dict[str, Any] = {"note": TEXTS, "ungated": TEXTS}
OVERRIDES = st.dictionaries(TEXTS, optional(**MEASURED), max_size=2)
ENTRIES = optional(**MEASURED, **REMARKS, profile=TEXTS, overrides=OVERRIDES)
COUNTED = optional(graphs=COUNTS, ops=COUNTS, functions=MEASURED["functions"])
CASES = st.dictionaries(TEXTS, ENTRIES | COUNTED, min_size=1, max_size=3)
WITH_CASES = st.builds(lambda cases, rest: {**rest, "cases": cases}, CASES, optional(**REMARKS))
TESTS = st.dictionaries(TEXTS, ENTRIES | WITH_CASES, min_size=1, max_size=3)


def written(tests: dict[str, Any]) -> str:
    head = {"version": 1, "profile": "cpu", "torch": "2.9", "tests": tests}
    return "\n".join(render.lines(head, render.FILE, 0)) + "\n"


def holds(text: str) -> bool:
    """Whether a text is recognised, which may not differ from reading it in full."""
    found = recognised(text, PATH, "test_a.py")
    if found is not None:
        full = document(text, PATH, "test_a.py")  # raises where it is wrong
        assert dict(found.tests) == dict(full.tests)
        assert list(found.lines.items()) == list(full.lines.items())
        assert list(found.tests) == list(full.tests)
        assert found.packages == full.packages
        assert (found.path, found.file, found.profile, found.versions) == (
            full.path,
            full.file,
            full.profile,
            full.versions,
        )
    return found is not None


@given(TESTS)
@examples(300)
def test_what_is_written_is_recognised_or_read(tests: dict[str, Any]) -> None:
    holds(written(tests))


FULL = """\
version: 1
profile: cpu
torch: "2.13"
packages: {transformers: "5.1"}
tests:
  test_one:
    graphs: {dynamo: 2}
    ops: {dynamo: 26, xla: 3}
    functions: {models/head.py: {Head.forward: 12, "f[0]": 8}, b.py: {Head.forward: 1}}
    causes: [{layer: dynamo, cause: break, where: "models/head.py::f", code: y1}]
  TestBlock::test_two:
    note: slow, see the issue
    profile: xla-cpu
    torch: "2.9"
    graphs: {dynamo: 3}
    recompiles: {dynamo: 1}
    causes:
      - {layer: dynamo, cause: break, where: "models/head.py::f", code: y1}
      - {layer: dynamo, cause: callee, where: "models/head.py::f", code: 'x["a"]', count: 2}
    breaks:
      - reason: Unsupported Tensor.item() call
        id: GB0124
        where: models/head.py::Head.forward
        code: "if x.item():"
        count: 2
      - where: models/head.py::Head.forward
        code: print("it's")
    eager:
      - where: models/head.py::Head.forward
        code: print("it's")
    overrides:
      tt-n150:
        torch: "2.9"
        graphs: {dynamo: 1}
      cuda:
        breaks:
          - where: a.py::g
  test_nothing: {}
  test_cases:
    ungated: flaky
    cases:
      resnet/50: {graphs: {dynamo: 1}, ops: {dynamo: 14}, functions: {a.py: {f: 3}}}
      "4-f32": {}
      a b-'x':
        graphs: {dynamo: 2}
        causes: [{layer: dynamo, cause: entry, count: 2}]
        overrides:
          cuda:
            graphs: {dynamo: 2}
            functions: {a.py: {f: 3}}
"""
"""Every form that is recognised."""


def test_every_form_of_ours_is_recognised() -> None:
    assert holds(FULL)


PIECES = [*PLAIN, *WORDS, *FULL.split(), "\n", " ", "  ", "    ", ": ", *"\t\r\0\\\"'{}[]|>#", ", "]
PIECES += ["- ", " # c", "&a ", "*a", "!t ", "<<<<<<< a\n"]


@given(st.integers(0, 2**32))
@examples(1500)
def test_a_changed_file_is_recognised_or_read(seed: int) -> None:
    """Texts changed at random; some stay right, and some are right in another way."""
    rng, text = random.Random(seed), FULL
    for _ in range(rng.randint(1, 3)):
        lines = text.splitlines(keepends=True)
        at, to = rng.randrange(len(text)), rng.randrange(len(lines))
        change = rng.randrange(7)
        if change == 0:
            text = text[:at] + rng.choice(PIECES) + text[at:]
        elif change == 1:
            text = text[:at] + text[at + rng.randint(1, 9) :]
        elif change == 2:
            text = text[:at] + rng.choice(PIECES) + text[at + rng.randint(1, 9) :]
        elif change == 3:
            del lines[to]
            text = "".join(lines)
        elif change == 4:
            lines.insert(to, rng.choice(lines))
            text = "".join(lines)
        elif change == 5:
            token = rng.choice(FULL.split())
            text = text.replace(token, rng.choice(PIECES), 1)
        else:
            lines[to] = " " * rng.choice([2, 4, 6, 8]) + lines[to].lstrip(" ")
            text = "".join(lines)
        if not text.strip():
            return
    holds(text)


PLACE = """\
      - where: models/head.py::Head.forward
        code: print("it's")
"""


CAUSE = 'break, where: "models/head.py::f", code: "y1"'


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("  test_nothing: {}", "  test_one: {}"),
        ('"4-f32": {}', "resnet/50: {}"),
        ("      cuda:\n        breaks", "      tt-n150:\n        breaks"),
        ('"f[0]": 8', "Head.forward: 8"),
        ('"f[0]": 8', '"f\0": 8'),
        ("b.py: {Head", "models/head.py: {Head"),
        ("{dynamo: 26, xla: 3}", "{dynamo: 26, dynamo: 3}"),
        ("cause: callee", "cause: fx"),
        ("cause: callee", "cause: unheard"),
        ("""callee, where: "models/head.py::f", code: 'x["a"]'""", CAUSE),
        (PLACE + "    eager", PLACE + PLACE + "    eager"),
        ("graphs: {dynamo: 3}", "graphs: {dynamo: -3}"),
        ("graphs: {dynamo: 3}", "graphs: {dynamo: 03}"),
        ("note: slow, see the issue", "note: yes"),
        ("note: slow, see the issue", "note: ' '"),
        ("count: 2\n", "count: 0\n"),
        ("ungated: flaky", "graphs: {dynamo: 1}"),
        ("where: a.py::g", "wher: a.py::g"),
    ],
)
def test_a_fault_is_told_with_its_line(tmp_path: Path, old: str, new: str) -> None:
    text = FULL.replace(old, new, 1)
    assert text != FULL
    assert recognised(text, PATH, "test_a.py") is None
    path = tmp_path / "test_a.yaml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(BaselineError) as caught:
        Baselines(tmp_path).check()
    with pytest.raises(BaselineError) as full:
        document(text, path, "test_a.py")
    assert str(caught.value) == str(full.value)
    assert caught.value.line


@pytest.mark.parametrize("name", ["test_nothing ", "no ", "no", "'no '", '"no"', "a :b", "a: b"])
def test_a_name_is_what_yaml_takes_it_for(name: str) -> None:
    text = FULL.replace("test_nothing", name)
    try:
        document(text, PATH, "test_a.py")
    except BaselineError:
        assert recognised(text, PATH, "test_a.py") is None
    else:
        holds(text)


def test_text_that_only_looks_like_entries_is_no_entry(tmp_path: Path) -> None:
    hidden = 'version: 1\nprofile: "\ntests:\n  test_a: {}\n"\n'
    assert recognised(hidden, PATH, "test_a.py") is None
    assert recognised(FULL.replace("note: slow, see the issue", 'note: "\n'), PATH, "a") is None
    assert recognised(FULL.replace("note: slow,", "note: |\n     "), PATH, "a") is None


def test_a_test_is_parsed_when_it_is_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    parsed = []

    def counted(text: str, path: Path) -> Any:
        parsed.append(text)
        return original(text, path)

    original = quick.parsed_test
    monkeypatch.setattr(quick, "parsed_test", counted)
    path = tmp_path / "test_a.yaml"
    path.write_text(FULL, encoding="utf-8")
    baselines = Baselines(tmp_path)
    baselines.check()
    assert not parsed
    for _ in range(2):
        entry = baselines.entry("test_a.py::test_one")
        assert entry is not None
        assert entry.values is not None
        assert entry.values.ops == {"dynamo": 26, "xla": 3}
        assert entry.line == 6
    assert baselines.entry("test_a.py::test_unknown") is None
    assert len(parsed) == 1
    stale = baselines.stale(["test_a.py::test_one"], ["test_a.py"], profile="cpu")
    assert [one.line for one in stale] == [38, 42, 43, 44]
    assert path.read_text(encoding="utf-8") == FULL
    assert load(tmp_path / "none.yaml", "none.py") is None
