"""Loading at the start of a run: entries in our own form are recognised and not yet read.

A run needs to know at its start that every file is right, and what each says
only where a test is judged. Text that is exactly as ``render`` writes it, in
ASCII, is known to be right by regular expressions, which costs a fraction of
parsing it; an entry is parsed when it is asked for. A file with anything else
in it, be it a comment, is read in full by ``read``, and so is every fault.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from pytest_graphbreak.baseline.document import Document, Raw
from pytest_graphbreak.baseline.load import load_text
from pytest_graphbreak.baseline.model import BaselineError
from pytest_graphbreak.baseline.read import document, parsed_test
from pytest_graphbreak.model.layers import CAUSES, COMPILERS, LAYERS

# Texts. None is one that YAML takes for something else, or white space only.
_NO_WORD = r"(?!(?i:null|true|false|yes|no|on|off|y|n)(?:[\n,}\]]|:[ \n]))"
_PLAIN = _NO_WORD + r"""[A-Za-z_/](?:[!-9;-~]|:(?=[!-~])| (?=[!-"$-9;-~]))"""
_DOUBLE = r'"[!#-\[\]-~][ !#-\[\]-~]'
_SINGLE = r"'[!-&(-~](?:[ -&(-~]|'')"
_KEY = f"(?:{_PLAIN}{{0,200}}|{_DOUBLE}{{0,200}}\"|{_SINGLE}{{0,200}}')"
_TEXT = f"(?:{_PLAIN}*|{_DOUBLE}*\"|{_SINGLE}*')"
_WORDS = _NO_WORD + r"[A-Za-z_/][A-Za-z0-9_./()+*=<>-]*(?: [A-Za-z_][A-Za-z0-9_./()+*=<>-]*)*"
_IN_FLOW = f"(?:{_WORDS}|{_DOUBLE}*\"|{_SINGLE}*')"
# Keys of functions have no mark that parts them.
_NAME = _NO_WORD + r'(?:[A-Za-z_/][A-Za-z0-9_./()+*=<>-]{0,200}|"[!#-&(-+.-\[\]-z|~-]{1,200}")'

# Values on one line
_COUNT = "(?:0|[1-9][0-9]{0,17})"
_COUNTS = (
    r"\{(?=[a-z}])" + "".join(rf"(?:{name}: {_COUNT}(?:, (?=[a-z])|(?=\}})))?" for name in LAYERS)
) + r"\}"
_NAMES = rf"\{{{_NAME}: {_COUNT}(?:, {_NAME}: {_COUNT})*\}}"
_FUNCTIONS = rf"\{{{_NAME}: {_NAMES}(?:, {_NAME}: {_NAMES})*\}}"
_LAYER = "|".join(f"{layer}, cause: (?:{'|'.join(names)})" for layer, names in CAUSES.items())
_CAUSE = (
    rf"\{{layer: (?:{_LAYER})(?:, where: {_IN_FLOW})?(?:, code: {_IN_FLOW})?"
    r"(?:, count: [1-9][0-9]{0,17})?\}"
)
_PLACE = (
    f"(?P=blanks)    - (?:reason: {_TEXT}\n(?P=blanks)      )?"
    f"(?:id: GB[0-9]{{1,9}}\n(?P=blanks)      )?where: {_TEXT}\n"
    f"(?:(?P=blanks)      code: {_TEXT}\n)?"
    f"(?:(?P=blanks)      count: [1-9][0-9]{{0,17}}\n)?"
)
_IN_BRACES = (
    r"\{"
    rf"(?:graphs: {_COUNTS}(?:, (?=[rofc])|(?=\}})))?"
    rf"(?:recompiles: {_COUNTS}(?:, (?=[ofc])|(?=\}})))?"
    rf"(?:ops: {_COUNTS}(?:, (?=[fc])|(?=\}})))?"
    rf"(?:functions: (?P<inline>{_FUNCTIONS})(?:, (?=c)|(?=\}})))?"
    rf"(?:causes: \[{_CAUSE}\])?\}}"
)
_VALUES = (
    f"(?:(?P=blanks)  graphs: {_COUNTS}\n)?"
    f"(?:(?P=blanks)  recompiles: {_COUNTS}\n)?"
    f"(?:(?P=blanks)  ops: {_COUNTS}\n)?"
    f"(?:(?P=blanks)  functions: (?P<functions>{_FUNCTIONS})\n)?"
    rf"(?:(?P=blanks)  causes:(?: \[{_CAUSE}\]" + "\n"
    f"|\n(?P<causes>(?:(?P=blanks)    - {_CAUSE}\n)+)))?"
    f"(?P<places>(?:(?P=blanks)  (?:breaks|eager):\n(?:{_PLACE})+){{0,2}})"
)
_MADE = "".join(
    rf'(?:(?P=blanks)  {name}: "[0-9]{{1,9}}\.[0-9]{{1,9}}"' + "\n)?" for name in COMPILERS
)
_ENTRY = (
    f"(?P<blanks>(?:    ){{0,2}}  )(?P<key>{_KEY}):(?: {_IN_BRACES}\n|\n(?=(?P=blanks)  [a-z])"
    f"(?P<remarks>(?:(?P=blanks)  (?:note|ungated|profile): {_TEXT}\n){{0,3}})"
    f"(?P<made>{_MADE})"
    f"(?P<values>{_VALUES})"
    f"(?P<below>(?P=blanks)  (?:cases|overrides):\n)?)"
)
"""A test, a case or an override: its key, and what it holds below or in braces.

What is below ``cases:`` and ``overrides:`` are entries again.
"""


@lru_cache(maxsize=1)  # it takes some milliseconds, which a suite without baselines has no use for
def _match() -> Callable[[str, int], re.Match[str] | None]:
    pattern = re.compile(_ENTRY)
    return pattern.match


_HEAD = re.compile("(?:[a-z]{1,20}: [ -~]*\n)+tests:\n")


def load(path: Path, file: str) -> Document | None:
    """Check a file; None if there is none. ``file`` is the test file it is for.

    ``BaselineError`` with the line of the first fault. The document comes
    without its ``root``, which is most of its memory.
    """
    text = load_text(path)
    if text is None:
        return None
    return recognised(text, path, file) or replace(document(text, path, file), root=None)


def recognised(text: str, path: Path, file: str) -> Document | None:
    """The document of a text in our own form; None of any other, whether right or wrong."""
    head = _HEAD.match(text) if text.isascii() else None
    top = _top(head[0]) if head else None
    if head is None or top is None:
        return None
    tests = _entries(text, head.end(), "  ", "tests")
    if not tests or next(reversed(tests.values())).end != len(text):
        return None
    lines: dict[tuple[str, str | None], int] = {}
    at, line = 0, 1
    for name, test in tests.items():
        line += text.count("\n", at, test.start)
        at = test.start
        lines[name, None] = line
        for case, place in test.cases.items():
            line += text.count("\n", at, place.start)
            at = place.start
            lines[name, case] = line
    return replace(top, path=path, file=file, tests=_Unread(text, path, tests), lines=lines)


class _Place(NamedTuple):
    """Offsets of the lines of an entry."""

    start: int
    end: int
    cases: dict[str, _Place]


def _entries(text: str, at: int, blanks: str, kind: str) -> dict[str, _Place] | None:
    """The entries that begin behind so many blanks, by key; None where one may be wrong."""
    match = _match()
    found: dict[str, _Place] = {}
    while (one := match(text, at)) and one["blanks"] == blanks:
        key, remarks, made, values, below = one.group("key", "remarks", "made", "values", "below")
        if (remarks and (kind == "overrides" or _repeats(remarks))) or _values_repeat(one):
            return None
        inside: dict[str, _Place] = {}
        end = one.end()
        if below:
            what = below.strip(" :\n")
            allowed = kind != "overrides" and (what == "overrides" or kind == "tests")
            if what == "cases" and (values or made or "profile:" in remarks):
                allowed = False
            inside = (allowed and _entries(text, end, f"{blanks}    ", what)) or {}
            if not inside:
                return None
            end = next(reversed(inside.values())).end
            inside = inside if what == "cases" else {}
        name = _unquoted(key)
        if name in found:
            return None
        found[name] = _Place(at, end, inside)
        at = end
    return found


class _Unread(Mapping[str, Raw]):
    """Tests of which each is parsed when it is asked for."""

    def __init__(self, text: str, path: Path, places: dict[str, _Place]) -> None:
        self.text = text
        self.path = path
        self.places = places
        self.read: dict[str, Raw] = {}

    def __getitem__(self, name: str) -> Raw:
        if name not in self.read:
            place = self.places[name]
            self.read[name] = parsed_test(self.text[place.start : place.end], self.path)
        return self.read[name]

    def __contains__(self, name: object) -> bool:
        return name in self.places

    def __iter__(self) -> Iterator[str]:
        return iter(self.places)

    def __len__(self) -> int:
        return len(self.places)


@lru_cache(maxsize=64)  # the files of a suite begin alike
def _top(head: str) -> Document | None:
    """What stands above the tests, by the parser; None where it finds a fault."""
    try:
        return replace(document(f"{head[:-1]} {{}}\n", Path(), ""), root=None)
    except BaselineError:
        return None


def _unquoted(key: str) -> str:
    if key[0] == '"':
        return key[1:-1]
    return key[1:-1].replace("''", "'") if key[0] == "'" else key


def _values_repeat(entry: re.Match[str]) -> bool:
    """Whether an entry may name a function, a cause or a place twice, which is a fault."""
    inline, functions, causes, places = entry.group("inline", "functions", "causes", "places")
    return bool(
        ((inline or functions) and _functions_repeat(inline or functions))
        or (causes and _items_repeat(causes))
        or (places and _items_repeat(places))
    )


def _repeats(remarks: str) -> bool:
    keys = [line.split(maxsplit=1)[0] for line in remarks.splitlines()]
    return len(set(keys)) < len(keys)


@lru_cache(maxsize=1024)  # tests of one model hold the same functions
def _functions_repeat(text: str) -> bool:
    files = text.replace('"', "").split("}, ")
    if len({one.partition(": ")[0].lstrip("{") for one in files}) < len(files):
        return True
    for one in files:
        names = one.partition(": ")[2].lstrip("{").split(", ")
        if len({name.rpartition(": ")[0] for name in names}) < len(names):
            return True
    return False


@lru_cache(maxsize=1024)
def _items_repeat(text: str) -> bool:
    """Whether two causes or places may have one key: blanks and quotes are no difference."""
    keys: list[str] = []
    of = ""
    for line in text.splitlines():
        item = line.lstrip(" ")
        if item in ("breaks:", "eager:"):
            if of == item:
                return True
            of = item
            continue
        if item.startswith("- "):
            keys.append(of)
            item = item[2:]
        if item.startswith("{"):
            keys[-1] += item.translate(_LOOSE).partition(",count:")[0].rstrip("}")
        elif item.startswith(("where:", "code:")):
            keys[-1] += item.translate(_LOOSE)
    return len(set(keys)) < len(keys)


_LOOSE = str.maketrans("", "", " \"'\\")
