"""Kinds of JSON values: how each is read, bounded and written, and what a schema says of it.

What strangers send is held to the bounds (``ReadMode.WHOLE``), and a ``BadValue`` tells the place;
what this package wrote itself is taken as it is (``ReadMode.OWN``). ``described`` makes objects of
dataclasses whose fields are of these kinds.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final

Plain = dict[str, Any]
"""A mapping of exact builtin types, as JSON would give it."""

Step = Callable[[Any], Any]
"""From JSON to a value, or back."""

LONGEST_TEXT: Final = 20_000
"""Characters of a text (a reason, a line of source); what is over is cut."""
MOST_COUNT: Final = 10_000_000
_CUT: Final = "..."


class ReadMode(Enum):
    """How JSON is read: what we wrote ourselves; a stranger's report; only the counts of one.

    ``COUNTS`` leaves out the keys that are details, which only people read, and their checks.
    """

    OWN = 0
    WHOLE = 1
    COUNTS = 2


class BadValue(ValueError):
    """What is wrong, and where: ``place`` grows on the way out, like ``tests[3].graphs``."""

    def __init__(self, message: str, place: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.place = place

    def below(self, key: str) -> BadValue:
        joint = "." if self.place and not self.place.startswith("[") else ""
        self.place = f"{key}{joint}{self.place}"
        return self


class Form:
    """One kind of value."""

    def reader(self, how: ReadMode) -> Step:
        """Checks a value and gives what it is in Python. Raises ``BadValue``."""
        raise NotImplementedError

    def writer(self) -> Step:
        return _as_it_is

    def schema(self, definitions: Plain) -> Plain:
        """Its JSON Schema; what has a name there is put into ``definitions``."""
        raise NotImplementedError


def _as_it_is(value: Any) -> Any:
    return value


def kind(value: Any) -> str:
    """What a value of JSON is called in messages."""
    kinds = {dict: "a mapping", list: "a list", str: "text", bool: "true or false", int: "a number"}
    return kinds.get(type(value), "null" if value is None else "a number")


def mapping(value: Any) -> Plain:
    """A mapping, of any keys. Raises ``BadValue``."""
    if type(value) is not dict:
        raise BadValue(f"{kind(value)} where a mapping is expected")
    return value


@dataclass(frozen=True, slots=True)
class TextUpTo(Form):
    """Text; what is longer than ``most`` characters is cut."""

    most: int = LONGEST_TEXT

    def reader(self, how: ReadMode) -> Step:
        most = self.most

        def read(value: Any) -> str:
            if type(value) is not str:
                raise BadValue(f"{kind(value)} where text is expected")
            return value if len(value) <= most else value[: most - len(_CUT)] + _CUT

        return _as_it_is if how is ReadMode.OWN else read

    def schema(self, definitions: Plain) -> Plain:
        return {"type": "string"}


@dataclass(frozen=True, slots=True, eq=False)
class Checked(Form):
    """A value that ``check`` takes, which raises ``BadValue`` otherwise."""

    check: Step
    said: Mapping[str, Any]

    def reader(self, how: ReadMode) -> Step:
        return _as_it_is if how is ReadMode.OWN else self.check

    def schema(self, definitions: Plain) -> Plain:
        return dict(self.said)


def _flag(value: Any) -> bool:
    if type(value) is not bool:
        raise BadValue(f"{kind(value)} where true or false is expected")
    return value


FLAG: Final = Checked(_flag, {"type": "boolean"})


def number(least: int, most: int = MOST_COUNT, among: str = "") -> Checked:
    """A count; ``among`` says of what there are no more than ``most``."""

    def check(value: Any) -> int:
        if type(value) is not int or not (0 if among else least) <= value <= MOST_COUNT:
            shown = value if type(value) is int and abs(value) < 10**12 else kind(value)
            raise BadValue(f"{shown} is not a count")
        if not least <= value <= most:
            raise BadValue(f"{value} is not one of at most {most:,} {among}")
        return value

    return Checked(check, {"type": "integer", "minimum": least})


@dataclass(frozen=True, slots=True)
class OneOf(Form):
    """One of some words; ``name`` is that of the list in the schema."""

    words: tuple[str, ...]
    name: str = ""
    says: str = ""

    def reader(self, how: ReadMode) -> Step:
        known = frozenset(self.words)

        def read(value: Any) -> str:
            if type(value) is not str or value not in known:
                shown = repr(value[:40]) if type(value) is str else kind(value)
                raise BadValue(f"{shown} is not one of {', '.join(self.words)}")
            return value

        return _as_it_is if how is ReadMode.OWN else read

    def schema(self, definitions: Plain) -> Plain:
        listed = {"description": self.says} if self.says else {}
        return defined(definitions, self.name, {**listed, "enum": list(self.words)})


def defined(definitions: Plain, name: str, schema: Plain) -> Plain:
    """A schema, or where it has a name the reference to it."""
    if not name:
        return schema
    definitions[name] = schema
    return {"$ref": f"#/$defs/{name}"}


@dataclass(frozen=True, slots=True)
class Maybe(Form):
    """A value, or null."""

    form: Form

    def reader(self, how: ReadMode) -> Step:
        inner = self.form.reader(how)
        if inner is _as_it_is:
            return inner
        return lambda value: None if value is None else inner(value)

    def writer(self) -> Step:
        inner = self.form.writer()
        if inner is _as_it_is:
            return inner
        return lambda value: None if value is None else inner(value)

    def schema(self, definitions: Plain) -> Plain:
        said = self.form.schema(definitions)
        if "enum" in said:
            return {**said, "enum": [*said["enum"], None]}
        if said.get("type", "object") == "object":
            return {"anyOf": [{"type": "null"}, said]}
        return {**said, "type": [said["type"], "null"]}


@dataclass(frozen=True, slots=True)
class ListOf(Form):
    """A list; in Python it is a tuple."""

    item: Form

    def reader(self, how: ReadMode) -> Step:
        item = self.item.reader(how)

        def read(value: Any) -> tuple[Any, ...]:
            if type(value) is not list:
                raise BadValue(f"{kind(value)} where a list is expected")
            found: list[Any] = []
            try:
                for one in value:
                    found.append(item(one))
            except BadValue as fault:
                raise fault.below(f"[{len(found)}]") from None
            return tuple(found)

        return tuple if item is _as_it_is else read

    def writer(self) -> Step:
        item = self.item.writer()
        return list if item is _as_it_is else lambda value: [item(one) for one in value]

    def schema(self, definitions: Plain) -> Plain:
        return {"type": "array", "items": self.item.schema(definitions)}


@dataclass(frozen=True, slots=True)
class MapOf(Form):
    """A mapping of at most ``most`` keys, which ``name`` says what they are.

    Where ``zero`` is False, what is zero is not written.
    """

    keys: Form
    values: Form
    most: int = 0
    name: str = ""
    zero: bool = True

    def reader(self, how: ReadMode) -> Step:
        one, most = self.values.reader(how), self.most
        known = self.keys.words if isinstance(self.keys, OneOf) else ()
        key_of = _as_it_is if known else self.keys.reader(how)

        def read(value: Any) -> Plain:
            found: Plain = {}
            if most and len(mapping(value)) > most:
                raise BadValue(f"{len(value):,} {self.name} are more than {most:,}")
            for key, item in mapping(value).items():
                try:
                    if known and key not in known:
                        raise BadValue(f"is not one of {', '.join(sorted(known))}")
                    found[key_of(key)] = one(item)
                except BadValue as fault:
                    raise fault.below(key[:80]) from None
            return found

        return dict if how is ReadMode.OWN else read

    def writer(self) -> Step:
        if self.zero:
            return dict
        return lambda value: {key: count for key, count in value.items() if count}

    def schema(self, definitions: Plain) -> Plain:
        named = {"propertyNames": self.keys.schema(definitions)}
        return {
            "type": "object",
            **(named if isinstance(self.keys, OneOf) else {}),
            "additionalProperties": self.values.schema(definitions),
        }
