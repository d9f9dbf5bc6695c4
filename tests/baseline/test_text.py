"""Properties of the text: what is written reads back, what is not changed stays to the byte."""

from __future__ import annotations

import random
import tempfile
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from pytest_graphbreak.baseline import (
    BaselinePlace,
    Baselines,
    Entry,
    Measured,
    Values,
    render,
    update,
)
from pytest_graphbreak.baseline import plan as planning
from pytest_graphbreak.baseline.model import nodeid_of
from pytest_graphbreak.baseline.read import document
from pytest_graphbreak.baseline.rules import expectation
from pytest_graphbreak.model.budget import writable
from tests.baseline.generated import LAYERS, Made, make, measurement
from tests.examples import examples

pytestmark = pytest.mark.pure

PLAIN = (
    "yes no on off y n null ~ true 1 1e3 0x10 1_0 1:30 .inf 2024-01-01 << = - a: # a#b ? [a] {a} "
    "' \" it's \\ a\\n é 日本 %a @a `a` !a &a *a | > --- ... version cases count note"
)
BLANKS = ["", "- a", "a: b", "a #b", "? a", 'say "x"', " a", "a ", "a  b", "\ta", "a\n", "\n\n"]
CONTROLS = ["\x00", "\x07", "\x1b[31m", "\x7f", "\ufffe", "😀", "�", "a�"]
BREAKS = ["a\r\nb", "\x85", "\xa0", "\u2028", "\ufeff", "a, b"]
LONG = ["x" * 128, "x" * 129, "é" * 600, '"' * 700, "x: " * 500]
AWKWARD = [*PLAIN.split(" "), *BLANKS, *CONTROLS, *BREAKS, *LONG]
TEXTS = st.sampled_from(AWKWARD) | st.text() | st.text("ab:#'\" -\n\\[]{},&*!|>%@`", max_size=12)


# texts


@given(TEXTS, TEXTS)
@examples(400)
def test_every_text_reads_back(name: str, text: str) -> None:
    """As a key and a value, in block and in flow style, by both of PyYAML's loaders."""
    block = "\n".join(render.item_lines(name, {"a": text}, 2)) + "\n"
    flow = render.inline({name: [text]}) + "\n"
    for loader in (yaml.SafeLoader, yaml.CSafeLoader):
        assert yaml.load(block, loader) == {writable(name): {"a": writable(text)}}
        assert yaml.load(flow, loader) == {writable(name): [writable(text)]}


@pytest.mark.parametrize("length", [127, 128, 129, 300, 900])
def test_a_long_key_stays_a_simple_key(length: int) -> None:
    for name in ("x" * length, "a: " * (length // 3)):
        assert render.item_lines(name, {}, 0)[0].partition(name)[2] in (
            ": {}",
            '": {}',
        )


KNOWN = st.builds(
    BaselinePlace,
    where=TEXTS,
    code=TEXTS,
    count=st.integers(1, 9),
    reason=st.none() | TEXTS,
    id=st.none() | TEXTS,
)


@given(
    test=TEXTS.filter(lambda text: text and "[" not in text),
    case=st.none() | TEXTS,
    breaks=st.lists(KNOWN, max_size=3, unique_by=lambda known: known.key),
    eager=st.lists(KNOWN, max_size=2, unique_by=lambda known: known.key),
    profile=st.sampled_from(["cpu", "a: b", "no", "日本", "x" * 200]),
)
@examples(150)
def test_every_entry_reads_back(
    test: str,
    case: str | None,
    breaks: list[BaselinePlace],
    eager: list[BaselinePlace],
    profile: str,
) -> None:
    with tempfile.TemporaryDirectory() as name:
        values = Values({"dynamo": 2}, {"xla": 1}, breaks=tuple(breaks), eager=tuple(eager))
        nodeid = nodeid_of("a/test_a.py", test, case)
        item = Measured(nodeid, profile, {"torch": "2.9.1"}, values, ("dynamo", "xla"))
        assert [change.kind for change in update(Path(name), [item]).items] == ["added"]
        expected = Baselines(Path(name)).expectation(nodeid, profile)
        assert not planning.differing_layers(expected, item)
        assert {known.key for known in expected.values.breaks} == {known.key for known in breaks}
        assert (expected.versions, expected.recorded) == ({"torch": "2.9"}, True)
        assert not update(Path(name), [item]).files, "and a second time nothing is left to write"


# files, as people lay them out


def kept(made: Made, new: str, touched: set[str]) -> None:
    """Every entry that was not touched is there with all of its bytes, and in its order."""
    at = 0
    for name, chunk in made.chunks.items():
        if name not in touched:
            found = new.find(chunk, at)
            assert found >= 0, f"{name} is not as it was"
            at = found + len(chunk)


def others_stay(item: Measured, old: Entry, new: Entry) -> None:
    """A measurement of one profile changes what no other is recorded with."""
    assert (new.note, new.ungated, new.profile) == (old.note, old.ungated, old.profile)
    for profile in {*old.overrides, *new.overrides} - {item.profile}:
        assert new.overrides[profile] == old.overrides[profile]
    if item.profile != old.profile or item.profile in old.overrides:
        assert (new.values, new.versions) == (old.values, old.versions)
    if old.values is not None and new.values is not None and old.values != new.values:
        unobserved = {*LAYERS} - {*item.layers}
        for layer in unobserved:
            assert new.values.graphs.get(layer) == old.values.graphs.get(layer)
        if "dynamo" in unobserved:
            assert (new.values.breaks, new.versions) == (old.values.breaks, old.versions)


@given(st.integers(0, 2**32), st.sampled_from(["update", "record"]))
@examples(500)
def test_an_update_changes_nothing_else(seed: int, mode: Any) -> None:
    rng = random.Random(seed)
    made = make(rng)
    document(made.text, Path("x"), "test_a.py")
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        path = directory / "test_a.yaml"
        path.write_bytes(made.text.encode())
        names = rng.sample(list(made.data), rng.randint(0, min(2, len(made.data))))
        measured = [measurement(rng, test, made.data[test]) for test in names]
        measured += [measurement(rng, "test_new", {}) for _ in range(rng.randint(0, 1))]
        before = [Baselines(directory).entry(item.nodeid) for item in measured]
        changes = update(directory, measured, mode=mode)
        new = path.read_bytes().decode()
        written = {
            change.nodeid.partition("::")[2].partition("[")[0]
            for change in changes.of_kind("added", "changed")
        }
        kept(made, new, written)
        if not written:
            assert new == made.text
        baselines = Baselines(directory)
        for item, old_entry in zip(measured, before, strict=True):
            found = baselines.entry(item.nodeid)
            if old_entry is not None:
                others_stay(item, old_entry, found)
            expected = expectation(found, item.profile)
            differs = planning.differing_layers if mode == "update" else planning.unjudged_layers
            assert found.ungated is not None or not differs(expected, item)
        assert not update(directory, measured, mode=mode).files


@given(st.integers(0, 2**32))
@examples(300)
def test_pruning_changes_nothing_else(seed: int) -> None:
    rng = random.Random(seed)
    made = make(rng)
    keys = [(test, case) for test, raw in made.data.items() for case in raw.get("cases", (None,))]
    gone = rng.sample(keys, rng.randint(1, len(keys)))
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        path = directory / "test_a.yaml"
        path.write_bytes(made.text.encode())
        prune = [Entry("test_a.py", test, case, "cpu", path=path) for test, case in gone]
        measured = [measurement(rng, "test_new", {}) for _ in range(rng.randint(0, 1))]
        changes = update(directory, measured, prune=prune)
        assert len(changes.of_kind("pruned")) == len(gone)
        if len(gone) == len(keys) and not measured:
            assert not path.exists()
            return
        new = path.read_bytes().decode()
        kept(made, new, {test for test, _ in gone})
        left = {(entry.test, entry.case) for entry in Baselines(directory).entries()}
        assert left - {("test_new", None)} == {*keys} - {*gone}
        assert not update(directory, measured, prune=prune).files
