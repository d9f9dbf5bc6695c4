"""The places that a module's text names: ``loc(...)``, with ``XLA_HLO_DEBUG=1``.

``reading`` makes a ``Locations`` for each device graph, feeds it the lines of its first module, and
asks for the places of its ops when the graph ends. MLIR prints each location once, as an alias, and
ops refer to aliases::

    #loc1 = loc("/home/me/model.py":12:0)
    #loc5 = loc("forward"(#loc1))
    #loc9 = loc(callsite(#loc5 at #loc7))
    #loc20 = loc("aten__mm"(#loc9))

An op's place is the innermost frame of its stack that is a model's or the user's own code. tt-xla's
older path puts all in the op's name instead:
``0|Net[net]|Linear[fc]|/home/me/model.py:10|forward|12|aten__mm``.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import Final

from pytest_graphbreak.text import prefixes

_ALIAS: Final = re.compile(r"#loc(\d*) = loc\(([^\n]*)", re.A)
"""``#loc5 = loc("forward"(#loc1))``: the number of an alias, and the rest of its line."""
_PLAIN: Final = re.compile(r'"([^"\n]{1,4096}\.py)":(\d{1,9})', re.A)
"""``"/home/me/model.py":12`` anywhere in a text."""
_FILE: Final = re.compile(r'"([^"]*\.py)":(\d{1,9})(?::\d+)?$', re.A)
"""``"/home/me/model.py":12:0``: a location that is nothing but a line."""
_NAMED: Final = re.compile(r'"((?:[^"\\]|\\.)*)"(?:\((.*)\))?$')
"""``"forward"(#loc1)``: a name, and the location that it is given to."""
_CALLSITE: Final = "callsite("
_REFERENCE: Final = re.compile(r"#loc(\d*)", re.A)
_PACKED: Final = re.compile(
    r"^-?\d+\|(?:(?P<modules>.*)\|)?(?P<file>[^|]*\.py):\d+\|(?P<name>[^|]*)\|(?P<line>\d{1,9})\|",
    re.A,
)
"""The op's name of tt-xla's older path, as above: the line that runs is after the function."""
_OP: Final = re.compile(r"(?:aten|prims|torch|xla)__(?!device_data)")
"""The ops that torch_xla lowered, but for ``device_data``: inputs, placed where they were made."""

MOST: Final = 100_000
"""The most aliases that are read of one graph; the rest of a larger one is skipped."""

DEPTH: Final = 200
"""How deep locations may be nested: a log is not trusted."""

Place = tuple[str, int, str]
"""The file as the log names it, the 1-based line, and the function (empty if not named)."""


class Locations:
    """The places of one graph: ``feed`` it lines, then ask."""

    def __init__(self) -> None:
        self._aliases: dict[str, str] = {}
        """What each alias stands for, by its number."""
        self._inline: Counter[Place] = Counter()
        """The places that ops name themselves, in a module without aliases."""

    def feed(self, text: str) -> None:
        """Read one or more whole lines."""
        for alias in _ALIAS.finditer(text):
            if len(self._aliases) >= MOST:
                return
            body, closed, _ = alias[2].rpartition(")")
            if closed:
                self._aliases[alias[1]] = body
        if not self._aliases:
            for place in _PLAIN.finditer(text):
                self._inline[prefixes.text(place[1]), int(place[2]), ""] += 1

    def places(self, is_user: Callable[[str], bool]) -> tuple[Counter[Place], str]:
        """Return how many kinds of ops each line has, and the path of the module most are in."""
        places: Counter[Place] = Counter()
        modules: Counter[str] = Counter()
        stacks = _Stacks(self._aliases, is_user)
        for body in self._aliases.values():
            match = _NAMED.match(body)
            if match is None:
                continue
            if packed := _PACKED.match(match[1]):
                file = prefixes.text(packed["file"])
                places[file, int(packed["line"]), prefixes.text(packed["name"])] += 1
                modules[_module(packed["modules"] or "")] += 1
            elif match[2] and _OP.match(match[1]):
                place = stacks.innermost(match[2])
                if place is not None:
                    places[place] += 1
        if not places:
            places = Counter(
                {place: number for place, number in self._files() if is_user(place[0])}
            )
        return places, modules.most_common(1)[0][0] if modules else ""

    @property
    def names_files(self) -> bool:
        """Whether any source file is named at all."""
        return bool(self._inline) or any(
            _PLAIN.search(body) or _PACKED.match(body.lstrip('"'))
            for body in self._aliases.values()
        )

    def _files(self) -> Iterator[tuple[Place, int]]:
        yield from self._inline.items()
        for body in self._aliases.values():
            for match in _PLAIN.finditer(body):
                yield (prefixes.text(match[1]), int(match[2]), ""), 1


class _Stacks:
    """Finds the user's frame in the stack that a location stands for, for one module."""

    def __init__(self, aliases: Mapping[str, str], is_user: Callable[[str], bool]) -> None:
        self._aliases = aliases
        self._is_user = is_user
        self._resolved: dict[str, Place | None] = {}
        """The frame of each alias that was seen before: stacks share most of theirs."""

    def innermost(self, body: str, depth: int = DEPTH, name: str = "") -> Place | None:
        """Return the innermost frame that is the user's; ``name`` is what names this location."""
        if depth == 0:
            return None
        body = body.strip()
        if reference := _REFERENCE.fullmatch(body):
            return self._referenced(reference[1], depth - 1, name)
        if match := _FILE.match(body):
            file = prefixes.text(match[1])
            return (file, int(match[2]), name) if self._is_user(file) else None
        if body.startswith(_CALLSITE) and body.endswith(")"):
            callee, at, caller = body[len(_CALLSITE) : -1].partition(" at ")
            if at:  # from the callee outwards
                return self.innermost(callee, depth - 1) or self.innermost(caller, depth - 1)
        match = _NAMED.match(body)
        if match is None or not match[2]:
            return None
        return self.innermost(match[2], depth - 1, prefixes.text(match[1]))

    def _referenced(self, alias: str, depth: int, name: str) -> Place | None:
        """Return the frame of the location that an alias stands for."""
        body = self._aliases.get(alias, "")
        # A line has no name of its own: several functions name it, each for itself. All else that
        # an alias stands for is the same wherever it is referred to.
        if _FILE.match(body):
            return self.innermost(body, depth, name)
        if alias not in self._resolved:
            self._resolved[alias] = None  # a location that contains itself ends here
            self._resolved[alias] = self.innermost(body, depth)
        return self._resolved[alias]


def _module(modules: str) -> str:
    """Return the innermost module's path: ``Net[net]|Linear[blocks.0.fc]`` -> ``blocks.0.fc``."""
    inner = re.findall(r"\[([^\[\]|]*)\]", modules)
    return prefixes.text(inner[-1]) if inner else ""
