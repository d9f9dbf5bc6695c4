"""Baselines and measurements made at random."""

from __future__ import annotations

import json
import random
from dataclasses import dataclass
from typing import Any

from pytest_graphbreak.baseline import BaselinePlace, Measured, Values
from pytest_graphbreak.baseline.files import is_cut_off
from pytest_graphbreak.baseline.model import nodeid_of

LAYERS = ("dynamo", "xla", "tt")


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
            breaks=broken(),
            eager=broken(),
        ),
        layers=layers,
    )
