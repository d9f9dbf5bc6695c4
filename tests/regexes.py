"""Every regular expression of the package, and strings on which one may take too long.

A pattern is slow where it can read one stretch of text in several ways, and
then fails: ``\\s+#`` on a run of spaces starts anew at each of them. So strings
are made from the pattern's own syntax tree: what its parts match, a part or
several of them again and again, and an end that does not fit. A pattern that is
linear takes four times as long for four times as much.
"""

from __future__ import annotations

import ast
import fnmatch
import gc
import re
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

from pytest_graphbreak.advice import triage
from pytest_graphbreak.advice.reasons import families
from pytest_graphbreak.baseline import form
from pytest_graphbreak.layers.inductor import skips
from pytest_graphbreak.layers.xla import lazy

if sys.version_info >= (3, 11):
    from re import _constants as constants  # type: ignore[attr-defined]
    from re import _parser as parser  # type: ignore[attr-defined]
else:
    import sre_constants as constants
    import sre_parse as parser

import pytest_graphbreak
from tests.growth import cpu, grows

PACKAGE: Final = Path(pytest_graphbreak.__file__).parent
METHODS: Final = ("match", "fullmatch", "search", "sub", "subn", "split", "findall", "finditer")
WORTH_A_LOOK: Final = {20: 0.0002, 32: 0.0002, 200: 0.001, 3000: 0.002, 12000: 0.004}
"""Seconds of CPU for so many characters, above which growth is measured; a linear pattern takes
a tenth of each or less. They decide nothing, since a busy machine exceeds them.

Exponential patterns show at the first two, cubic ones at the next, quadratic at the last.
"""

GROWTH: Final = {20: 32.0, 32: 32.0, 200: 32.0, 3000: 32.0, 12000: 8.0}
"""Of the time, from a quarter of a length to the length: 4 is linear, 16 quadratic, 64 cubic. A
repeat with a bound is quadratic up to it, so only the greatest length tells what is quadratic."""

CUBIC: Final = 64.0
"""The growth from the last length but one to the last that is reckoned with: what grows faster
showed before. A text that cannot be worth a look is not tried at the last."""


@dataclass(frozen=True)
class Expression:
    """A pattern, where it is, and the methods that are called on it."""

    where: str
    pattern: re.Pattern[Any]
    methods: frozenset[str]

    def __str__(self) -> str:
        return f"{self.where}: {self.pattern.pattern!r} ({', '.join(sorted(self.methods))})"


# Which there are


def expressions(dynamic: dict[str, Callable[[], Iterable[str]]]) -> Iterator[Expression]:
    """All of the package; ``dynamic`` gives the patterns of calls whose pattern is no constant.

    Its keys are ``file:expression``. Raises ``LookupError`` for a call that it lacks.
    """
    seen = set()
    for path in sorted(PACKAGE.rglob("*.py")):
        name = path.relative_to(PACKAGE).as_posix()
        tree = ast.parse(path.read_text(encoding="utf-8"))
        constants_here = _constants(tree)
        used = _used(tree)
        for call, target in _calls(tree):
            assert isinstance(call.func, ast.Attribute)
            method = call.func.attr
            methods = used.get(target, {"search"}) if method == "compile" else {method}
            first = call.args[0]
            key = f"{name}:{ast.unparse(first)}"
            known = _value(first, constants_here)
            if known is None and key not in dynamic:
                raise LookupError(f"{name}:{call.lineno}: what patterns can this be? {key!r}")
            for text in [known] if known is not None else dynamic[key]():
                pattern = re.compile(text, _flags(call, method))
                if (pattern, *sorted(methods)) not in seen:
                    seen.add((pattern, *sorted(methods)))
                    yield Expression(f"{name}:{call.lineno}", pattern, frozenset(methods))


def _calls(tree: ast.AST) -> Iterator[tuple[ast.Call, str]]:
    """Calls of ``re``, each with the name that its result is given."""
    targets: dict[int, str] = {}
    for node in ast.walk(tree):
        value = getattr(node, "value", None)
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            targets[id(value)] = node.targets[0].id
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            targets[id(value)] = node.target.id
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and isinstance(node.func.value, ast.Name)
            and node.func.value.id == "re"
            and node.func.attr in (*METHODS, "compile")
        ):
            yield node, targets.get(id(node), "")


def _used(tree: ast.AST) -> dict[str, set[str]]:
    """By name, the methods of patterns that are used on it in this file."""
    found: dict[str, set[str]] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and node.attr in METHODS:
            found.setdefault(ast.unparse(node.value), set()).add(node.attr)
    return found


def _constants(tree: ast.Module) -> dict[str, Any]:
    """The module's own names for constants, of which patterns are put together."""
    found: dict[str, Any] = {}
    for node in tree.body:
        target = node.targets[0] if isinstance(node, ast.Assign) else getattr(node, "target", None)
        value = getattr(node, "value", None)
        if isinstance(target, ast.Name) and value is not None:
            known = _value(value, found)
            if known is not None:
                found[target.id] = known
    return found


def _value(node: ast.expr, names: dict[str, Any]) -> Any:
    """What an expression of constants and names is; None for any other."""
    try:
        return eval(compile(ast.Expression(node), "", "eval"), {"__builtins__": {}}, names)
    except Exception:
        return None


def _flags(call: ast.Call, method: str) -> int:
    """The flags that a call is given."""
    place = {"compile": 1, "sub": 4, "subn": 4, "split": 3}.get(method, 2)
    given = [key.value for key in call.keywords if key.arg == "flags"] or call.args[place:]
    return int(eval(ast.unparse(given[0]), {"re": re})) if given else 0


# What they are tried on


def attacks(pattern: re.Pattern[Any]) -> Iterator[tuple[str, str, str]]:
    """What comes first, what comes again and again, and the end."""
    seen = set()
    chars = _chars(pattern)
    for parts in _variants(parser.parse(pattern.pattern, pattern.flags), 12):
        texts = _words(parts)
        heads = dict.fromkeys(["", *("".join(texts[:end]) for end in range(1, len(texts) + 1))])
        windows = {
            "".join(texts[start : start + length])
            for length in (1, 2, 3, len(texts))
            for start in range(len(texts))
        }
        pumps = dict.fromkeys([*chars, *sorted(windows)])
        for head in heads:
            for pump in pumps:
                for tail in ("", "\x01", "\n\x01"):
                    if (head, pump, tail) not in seen:
                        seen.add((head, pump, tail))
                        yield head, pump, tail


def _variants(tree: Any, most: int) -> list[list[str]]:
    """What the parts of a pattern match, in order; one list for each way through its branches."""
    found: list[list[str]] = [[]]
    for op, argument in tree:
        inner = _part(op, argument, most)
        found = [[*before, *after] for before in found for after in inner][:most]
    return found


def _words(parts: list[str]) -> list[str]:
    """Without empty parts; literals that stand together are one part, wherever they were cut."""
    found: list[str] = []
    literal = False
    for part in parts:
        text = part.removeprefix(_LITERAL)
        if found and literal and text != part:
            found[-1] += text
        elif text:
            found.append(text)
        literal = text != part
    return found


def _part(op: Any, argument: Any, most: int) -> list[list[str]]:
    if op in (constants.MAX_REPEAT, constants.MIN_REPEAT, *_POSSESSIVE):
        least, _, body = argument
        return [parts * max(1, min(least, 64)) for parts in _variants(body, most)]
    if op is constants.SUBPATTERN:
        return _variants(argument[-1], most)
    if op is constants.BRANCH:
        return [parts for branch in argument[1] for parts in _variants(branch, most)][:most]
    if op in (constants.ASSERT, *_ATOMIC):
        return _variants(argument[1] if op is constants.ASSERT else argument, most)
    if op is constants.LITERAL:
        return [[_LITERAL + chr(argument)]]
    if op in (constants.ANY, constants.NOT_LITERAL, constants.IN):
        return [[next(iter(_matching(op, argument)), "")]]
    return [[]]  # a position, what must not follow, a group again


_LITERAL: Final = "\0"
"""Before a part that matches only itself; no pattern here has this character."""

_POSSESSIVE: Final = [
    getattr(constants, name) for name in ("POSSESSIVE_REPEAT",) if hasattr(constants, name)
]
_ATOMIC: Final = [
    getattr(constants, name) for name in ("ATOMIC_GROUP",) if hasattr(constants, name)
]
_ALPHABET: Final = "a0 _.:/-,'\"()[]<>{}#\n\t" + "".join(map(chr, range(33, 127)))


def _matching(op: Any, argument: Any) -> str:
    """The characters, of those that are tried, that one item of a pattern matches."""
    if op is constants.ANY:
        return _ALPHABET.replace("\n", "")
    if op is constants.NOT_LITERAL:
        return _ALPHABET.replace(chr(argument), "")
    negated = argument[0][0] is constants.NEGATE
    inside = {char for char in _ALPHABET for item in argument if _is_in(char, item)}
    return "".join(char for char in _ALPHABET if (char in inside) != negated)


def _parts(argument: Any) -> Iterator[Any]:
    """The patterns inside one item of a pattern."""
    for part in argument if isinstance(argument, tuple) else (argument,):
        for below in part if isinstance(part, list) else [part]:
            if isinstance(below, parser.SubPattern):
                yield below


def _is_in(char: str, item: Any) -> bool:
    kind, value = item
    if kind is constants.LITERAL:
        return bool(ord(char) == value)
    if kind is constants.RANGE:
        return bool(value[0] <= ord(char) <= value[1])
    if kind is constants.CATEGORY:
        name = str(value).rpartition("_")[2].lower()
        fits = {"digit": str.isdigit, "space": str.isspace, "word": _is_word}[name](char)
        return fits != ("NOT_" in str(value))
    return False


def _is_word(char: str) -> bool:
    return char.isalnum() or char == "_"


def _chars(pattern: re.Pattern[Any]) -> list[str]:
    """One character for each set of items that match the same, of those that a pattern has."""
    items: list[tuple[Any, Any]] = []

    def walk(tree: Any) -> None:
        for op, argument in tree:
            if op in (constants.ANY, constants.NOT_LITERAL, constants.IN):
                items.append((op, argument))
            elif op is constants.LITERAL:
                items.append((constants.IN, [(op, argument)]))
            for part in _parts(argument):
                walk(part)

    walk(parser.parse(pattern.pattern, pattern.flags))
    matched = [set(_matching(*item)) for item in items]
    kinds: dict[tuple[bool, ...], str] = {}
    for char in _ALPHABET:
        kinds.setdefault(tuple(char in chars for chars in matched), char)
    return list(kinds.values())


# How long they take

Run = Callable[[Any], object]


def repeats(tree: Any) -> bool:
    """Whether a part of a pattern may match more than once.

    A pattern without one takes, at each place of a text, no more steps than it has parts: it is
    linear as it stands, and most of the package's are.
    """
    for op, argument in tree:
        if op in (constants.MAX_REPEAT, constants.MIN_REPEAT, *_POSSESSIVE) and argument[1] > 1:
            return True
        if any(repeats(part) for part in _parts(argument)):
            return True
    return False


def slow(expression: Expression, most: int | None = None) -> str | None:
    """The first string on which an expression takes too long, in words; None if there is none.

    ``most`` strings are tried: of more, every so-many-eth, so that each part has its turn.
    """
    pattern = expression.pattern
    if not repeats(parser.parse(pattern.pattern, pattern.flags)):
        return None
    tried = list(attacks(pattern))
    tried = tried[:: -(-len(tried) // most) or 1] if most else tried
    gc.disable()
    try:
        for run in {runner(pattern, method) for method in expression.methods}:
            for attack in tried:
                if too_long(pattern, run, attack):
                    head, pump, tail = attack
                    return f"{expression}\n    takes too long on {head!r} + {pump!r} * n + {tail!r}"
    finally:
        gc.enable()
    return None


def too_long(pattern: re.Pattern[Any], run: Run, attack: tuple[str, str, str]) -> bool:
    """Whether time grows faster than the text. Times are only compared with each other."""
    took = 0.0
    for size, limit in WORTH_A_LOOK.items():
        if size == max(WORTH_A_LOOK) and took * CUBIC < limit:
            break
        quarter, whole = (partial(run, _text(pattern, attack, n)) for n in (size // 4, size))
        took, most = cpu(whole), GROWTH[size]
        # One comparison tells what is linear; another that it was no accident.
        if took > limit and took > most * cpu(quarter) and grows(quarter, whole, most):
            return True
    return False


def _text(pattern: re.Pattern[Any], attack: tuple[str, str, str], size: int) -> Any:
    head, pump, tail = attack
    text = head + pump * max(1, size // len(pump)) + tail
    return text if isinstance(pattern.pattern, str) else text.encode("latin-1")


def runner(pattern: re.Pattern[Any], method: str) -> Run:
    if method == "match":
        return pattern.match
    if method == "fullmatch":
        return pattern.fullmatch
    if method == "search":
        return pattern.search
    return _All(pattern)


@dataclass(frozen=True)
class _All:
    pattern: re.Pattern[Any]

    def __call__(self, text: Any) -> object:
        return deque(self.pattern.finditer(text), 0)


def signs() -> Iterator[str]:
    for group in families().__struct_fields__:
        for family in getattr(families(), group):
            for sign in (*family.signs, *family.lines):
                yield from filter(None, (sign.reason, sign.detail, sign.code))


def rules(*parts: str) -> Iterator[str]:
    for rule in triage._table().rules:
        yield from filter(None, (getattr(rule, part) for part in parts))


DYNAMIC: dict[str, Callable[[], Iterable[str]]] = {
    "baseline/read.py:words.pattern": lambda: [
        kind.__metadata__[0].pattern for kind in (form.Words, form.Version)
    ],
    "advice/reasons.py:part": signs,
    "advice/explanation.py:part": signs,
    "advice/__init__.py:f'\\\\b{re.escape(owner)}\\\\.apply\\\\('": lambda: [r"\bScale\.apply\("],
    "cli/report.py:fnmatch.translate(text.replace('[', '[[]'))": lambda: [
        fnmatch.translate("tests/*::test_*[[]*-*]")
    ],
    "layers/children/process.py:f'{re.escape(default)}-[\\\\d:]+'": lambda: [r"Process\-[\d:]+"],
    'layers/dynamo/guards.py:f"\\\\b{re.escape(name)}\\\\b\'?\\\\]?[.)]"': lambda: [
        r"\bblock\b'?\]?[.)]"
    ],
    "layers/inductor/skips.py:pattern": lambda: [pattern for pattern, _ in skips.WORDS],
    "layers/xla/lazy.py:pattern": lambda: [one.pattern for one, _ in lazy.READERS],
    "advice/triage.py:self.error": lambda: rules("error"),
    "advice/triage.py:part": lambda: rules("message", "place", "trace"),
}
"""What the patterns are that are in no source text; a new one is to be listed here."""
