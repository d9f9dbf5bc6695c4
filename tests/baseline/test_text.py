"""Properties of the text: what is written reads back, what is not changed stays to the byte."""

from __future__ import annotations

import json
import random
import tempfile
from dataclasses import dataclass
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
from pytest_graphbreak.baseline.files import is_cut_off
from pytest_graphbreak.baseline.model import nodeid_of
from pytest_graphbreak.baseline.read import document
from pytest_graphbreak.model.budget import writable
from tests.examples import examples

pytestmark = pytest.mark.pure

LAYERS = ("dynamo", "xla", "tt")
AWKWARD = [
    *(
        "yes",
        "no",
        "on",
        "off",
        "y",
        "n",
        "null",
        "~",
        "true",
        "1",
        "1e3",
        "0x10",
        "1_0",
        "1:30",
        ".inf",
    ),
    *(
        "2024-01-01",
        "<<",
        "=",
        "-",
        "- a",
        "a: b",
        "a:",
        "a #b",
        "#",
        "a#b",
        "?",
        "? a",
        "[a]",
        "{a}",
    ),
    *(
        "'",
        '"',
        "it's",
        'say "x"',
        "\\",
        "a\\n",
        " a",
        "a ",
        "a  b",
        "\ta",
        "a\n",
        "\n\n",
        "a\r\nb",
    ),
    *(
        "",
        "\0",
        "\x07",
        "\x1b[31m",
        "\x7f",
        "\x85",
        "\xa0",
        "\u2028",
        "\ufeff",
        "\ufffe",
        "\U0001f600",
    ),
    *(
        "é",
        "日本",
        "\ud800",
        "a\udc80",
        "%a",
        "@a",
        "`a`",
        "!a",
        "&a",
        "*a",
        "|",
        ">",
        "a, b",
        "---",
        "...",
    ),
    *("x" * 128, "x" * 129, "é" * 600, '"' * 700, "x: " * 500, "version", "cases", "count", "note"),
]
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
        assert expected is not None
        assert not planning.differing_layers(expected, item)
        assert {known.key for known in expected.values.breaks} == {known.key for known in breaks}
        assert (expected.versions, expected.recorded) == ({"torch": "2.9"}, True)
        assert not update(Path(name), [item]).files, "and a second time nothing is left to write"


# files, as people lay them out

PLACES = [("m.py::f", "x.item()"), ("m.py::g", "print(x)"), ("n/o.py::C.d", 'k = x["#a: b"]')]


def places(rng: random.Random) -> list[dict[str, Any]]:
    found = []
    for where, code in rng.sample(PLACES, rng.randint(0, 3)):
        item: dict[str, Any] = {"where": where, "code": code}
        if rng.random() < 0.7:
            item["reason"] = rng.choice(["Unsupported: a", "because # of b"])
        if rng.random() < 0.5:
            item["id"] = rng.choice(["GB1", "GB2"])
        if rng.random() < 0.3:
            item["count"] = rng.randint(2, 3)
        keys = list(item)
        rng.shuffle(keys)
        found.append({key: item[key] for key in keys})
    return found


def counts(rng: random.Random, low: int = 1) -> dict[str, int]:
    return {layer: rng.randint(low, 3) for layer in rng.sample(LAYERS, rng.randint(0, 3))}


def values(rng: random.Random, low: int = 1) -> dict[str, Any]:
    raw: dict[str, Any] = {}
    for field in ("graphs", "recompiles"):
        if rng.random() < 0.6:
            raw[field] = counts(rng, low)
    for field in ("breaks", "eager"):
        if rng.random() < 0.5:
            raw[field] = places(rng)
    return raw


def entry(rng: random.Random) -> dict[str, Any]:
    raw = values(rng) if rng.random() < 0.9 else {}
    if rng.random() < 0.3:
        raw["note"] = rng.choice(["a note", "with: a colon", "# hash", "two\nlines"])
    if rng.random() < 0.1:
        raw["ungated"] = "flaky"
    if rng.random() < 0.2:
        raw["torch"] = rng.choice(["2.8", "2.10"])
    if rng.random() < 0.1:
        raw["profile"] = "tt"
    if rng.random() < 0.4:
        raw["overrides"] = {
            name: values(rng, 0) for name in rng.sample(["tt", "cuda"], rng.randint(1, 2))
        }
    keys = list(raw)
    rng.shuffle(keys)
    return {key: raw[key] for key in keys}


class Layout:
    """Writes plain data as YAML in whatever form a person might have chosen."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.comments = 0

    def comment(self) -> str:
        self.comments += 1
        return f"# c{self.comments:04d}, kept: {{a, b}}"

    def text(self, text: str, flow: bool) -> str:
        plain = text.replace("_", "").isalpha() and text not in ("null",)
        if plain and self.rng.random() < 0.7:
            return text
        if self.rng.random() < 0.5 and "\n" not in text:
            return "'" + text.replace("'", "''") + "'"
        return json.dumps(text)

    def flow(self, value: Any, wide: int) -> str:
        """On one line, or on several with comments between."""
        rng = self.rng
        if isinstance(value, int):
            return str(value)
        if isinstance(value, str):
            return self.text(value, True)
        tall = rng.random() < 0.3
        pad = " " * wide
        parts = (
            [f"{self.text(key, True)}: {self.flow(item, wide + 2)}" for key, item in value.items()]
            if isinstance(value, dict)
            else [self.flow(item, wide + 2) for item in value]
        )
        opened, closed = "{}" if isinstance(value, dict) else "[]"
        if not tall or not parts:
            inner = (
                rng.choice([", ", ","]).join(parts)
                if not any(":" in p and ": " not in p for p in parts)
                else ", ".join(parts)
            )
            return opened + rng.choice(["", " "]) + inner + rng.choice(["", " "]) + closed
        body = ""
        for index, part in enumerate(parts):
            comma = "," if index + 1 < len(parts) or rng.random() < 0.3 else ""
            body += f"{pad}{part}{comma}"
            body += f" {self.comment()}\n" if rng.random() < 0.4 else "\n"
        return f"{opened}\n{body}{pad}{closed}"

    def block(self, raw: dict[str, Any], wide: int, step: int) -> list[str]:
        rng, lines = self.rng, []
        for key, value in raw.items():
            if rng.random() < 0.1:
                lines.append(" " * wide + self.comment())
            lines += self.item(key, value, wide, step)
        return lines

    def tail(self) -> str:
        return f"  {self.comment()}" if self.rng.random() < 0.15 else ""

    def item(self, key: str, value: Any, wide: int, step: int) -> list[str]:
        rng, pad = self.rng, " " * wide
        name = self.text(key, False)
        start = f"{pad}? {name}\n{pad}:" if rng.random() < 0.03 else f"{pad}{name}:"
        if isinstance(value, str) and rng.random() < 0.15 and value.strip():
            body = [" " * (wide + step) + line for line in value.split("\n")]
            return [f"{start} |-", *body]
        if not isinstance(value, dict | list) or not value or rng.random() < 0.25:
            return (f"{start} {self.flow(value, wide + step)}" + self.tail()).split("\n")
        if isinstance(value, dict):
            return [*(start + self.tail()).split("\n"), *self.block(value, wide + step, step)]
        dash = wide if rng.random() < 0.3 else wide + step
        lines = (start + self.tail()).split("\n")
        for item in value:
            if rng.random() < 0.1:
                lines.append(" " * dash + self.comment())
            if rng.random() < 0.2:
                lines += (" " * dash + "- " + self.flow(item, dash + 4) + self.tail()).split("\n")
                continue
            first, *rest = self.block(item, dash + 2, step)
            if first.lstrip().startswith("#"):
                lines += [" " * dash + "-", first, *rest]
            else:
                lines += [" " * dash + "- " + first[dash + 2 :], *rest]
        return lines


@dataclass
class Made:
    """A file: its text, and each entry's own lines with what directly belongs to them."""

    text: str
    data: dict[str, Any]
    chunks: dict[str, str]


def make(rng: random.Random) -> Made:
    layout, step = Layout(rng), rng.choice([1, 2, 4])
    newline = rng.choice(["\n", "\n", "\r\n"])
    gap = rng.random() < 0.3
    data: dict[str, Any] = {}
    chunks: dict[str, str] = {}
    head = "# a file\nversion: 1\nprofile: cpu\ntorch: '2.9'  # t\ntests:\n"
    body = ""
    for index in range(rng.randint(1, 5)):
        name = f"test_{index}"
        if rng.random() < 0.3:
            cases = {f"c{number}/x: y": entry(rng) for number in range(rng.randint(1, 3))}
            data[name] = {"cases": cases}
            if rng.random() < 0.3:
                data[name]["note"] = "of all"
        else:
            data[name] = entry(rng)
        lines = layout.item(name, data[name], step, step)
        if rng.random() < 0.3:
            lines.insert(0, " " * rng.choice([0, step]) + layout.comment())
        if rng.random() < 0.2:
            lines.append(" " * (step * 2) + layout.comment())
        chunk = "".join(f"{line}\n" for line in lines)
        chunks[name] = chunk.replace("\n", newline)
        body += chunk
        if gap:
            body += "\n"
    text = head + body + rng.choice(["", "# the end\n", "\n# the end\n"])
    # Without its end the last line of a place may have been cut off, which is refused.
    if rng.random() < 0.2 and not is_cut_off(text.rstrip("\n").encode()):
        text = text.rstrip("\n")
        last = list(chunks)[-1]
        chunks[last] = chunks[last].rstrip("\r\n")
    text = rng.choice(["", "", "\ufeff"]) + text.replace("\n", newline)
    return Made(text, data, chunks)


def measurement(rng: random.Random, name: str, raw: dict[str, Any]) -> Measured:
    case = None
    if "cases" in raw:
        case = rng.choice([*raw["cases"], "new"])
    layers = tuple(rng.sample(LAYERS, rng.randint(1, 3)))

    def broken() -> tuple[BaselinePlace, ...]:
        return tuple(BaselinePlace(**item) for item in places(rng)) if "dynamo" in layers else ()

    return Measured(
        nodeid=nodeid_of("test_a.py", name, case),
        profile=rng.choice(["cpu", "cpu", "tt", "cuda", "new"]),
        versions=rng.choice([{"torch": "2.9.1"}, {"torch": "2.10.0"}, {}]),
        values=Values(
            {layer: rng.randint(0, 3) for layer in layers},
            {layer: rng.randint(0, 1) for layer in layers},
            breaks=tuple(BaselinePlace(**item) for item in places(rng))
            if "dynamo" in layers
            else (),
            eager=tuple(BaselinePlace(**item) for item in places(rng))
            if "dynamo" in layers
            else (),
        ),
        layers=layers,
    )


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
            assert found is not None
            if old_entry is not None:
                others_stay(item, old_entry, found)
            expected = found.expectation(item.profile)
            if found.ungated is None:
                differs = (
                    planning.differing_layers if mode == "update" else planning.unjudged_layers
                )
                assert expected is not None
                assert not differs(expected, item)
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
