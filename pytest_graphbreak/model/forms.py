"""JSON that is said once: a dataclass is an object, and each of its fields a key.

    class Graph(Described):
        layer: LayerName
        ops: Count | None = None
        sources: Annotated[tuple[Text, ...], JsonKey("What became this one.", name="from")] = ()

Reading, checking, writing and the JSON Schema come from these types. What strangers send is held
to the bounds of its forms (``ReadMode.WHOLE``), and a ``BadValue`` tells the place; what this
package wrote itself is taken as it is (``ReadMode.OWN``). Keys that are not described are ignored;
one that is missing has the default of its field, and one without a default has to be there.
"""

from __future__ import annotations

import dataclasses
import types
import typing
from collections.abc import Callable, Iterable, Mapping
from dataclasses import MISSING, dataclass
from enum import Enum
from functools import cache
from typing import Annotated, Any, ClassVar, Final, TypeVar, Union

Own = TypeVar("Own", bound="Described")
Function = TypeVar("Function", bound=Callable[..., Any])

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


@dataclass(frozen=True, slots=True)
class JsonKey:
    """What is to be said of a key beside its type.

    ``name`` is the key where the field has another, and ``within`` that of an object around it. A
    ``detail`` is for people only. An ``inline`` object has its keys where its own key would stand.
    ``always`` is False for a key that a report may lack, ``empty`` for one that is not written
    where it has its default. The items of a ``unique`` list are no two alike.
    """

    says: str = ""
    name: str = ""
    within: str = ""
    detail: bool = False
    inline: bool = False
    always: bool = True
    empty: bool = True
    unique: bool = False


LOCAL: Final = "local"
"""Marks a field that JSON does not have."""


class Described:
    """A dataclass that is a JSON object.

    ``ORDER`` are its keys as they are written, where that is not the order of its fields; a
    property whose type has a ``JsonKey`` is written, too. ``DEFINITION`` is its name in the schema,
    and ``ABOUT`` what is said of it there, or of the objects ``within`` it. ``check`` is asked of
    each that was read from a stranger, and raises ``BadValue``.
    """

    __slots__ = ()
    ORDER: ClassVar[tuple[str, ...]] = ()
    DEFINITION: ClassVar[str] = ""
    ABOUT: ClassVar[Mapping[str, str]] = {}

    def check(self) -> None:
        pass

    def to_dict(self) -> Plain:
        """As JSON has it, of exact builtin types."""
        found: Plain = _writer(type(self))(self)
        return found

    @classmethod
    def from_dict(cls: type[Own], data: Mapping[str, Any]) -> Own:
        """The inverse of ``to_dict``, for what this package wrote. Raises ``BadValue``."""
        found: Own = _reader(cls, ReadMode.OWN)(data)
        return found


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


def _once(function: Function) -> Function:
    """``functools.cache``, whose types take no class as an argument."""
    return typing.cast("Function", cache(function))


def kind(value: Any) -> str:
    """What a value of JSON is called in messages."""
    kinds = {dict: "a mapping", list: "a list", str: "text", bool: "true or false", int: "a number"}
    return kinds.get(type(value), "null" if value is None else "a number")


def _mapping(value: Any) -> Plain:
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
        return _defined(definitions, self.name, {**listed, "enum": list(self.words)})


def _defined(definitions: Plain, name: str, schema: Plain) -> Plain:
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
            if most and len(_mapping(value)) > most:
                raise BadValue(f"{len(value):,} {self.name} are more than {most:,}")
            for key, item in _mapping(value).items():
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


@dataclass(frozen=True, slots=True)
class Keys(Form):
    """A mapping of exactly these keys, of which each may be null; for an ``inline`` field."""

    names: tuple[str, ...]
    values: Form

    def reader(self, how: ReadMode) -> Step:
        items = [
            (at, name, _quick(self.values, how), Maybe(self.values).reader(how), False)
            for at, name in enumerate(self.names)
        ]

        def read(given: Plain) -> Plain:
            found: list[Any] = [None] * len(items)
            _fill(found, given, items)
            return dict(zip(self.names, found, strict=True))

        return read

    def writer(self) -> Step:
        return lambda value: {name: value.get(name) for name in self.names}

    def schema(self, definitions: Plain) -> Plain:
        said = Maybe(self.values).schema(definitions)
        return {"properties": dict.fromkeys(self.names, said), "required": list(self.names)}


@dataclass(frozen=True, slots=True)
class Object(Form):
    """A ``Described`` dataclass."""

    cls: type[Described]

    def reader(self, how: ReadMode) -> Step:
        return _reader(self.cls, how)

    def writer(self) -> Step:
        return _writer(self.cls)

    def schema(self, definitions: Plain) -> Plain:
        return _schema(self.cls, definitions)


@dataclass(frozen=True, slots=True)
class _Field:
    """A field of a dataclass, or a property, as JSON has it; a ``form`` of None is not there."""

    attribute: str
    key: JsonKey
    form: Form | None
    default: Any

    @property
    def name(self) -> str:
        return self.key.name or self.attribute


@_once
def _fields(cls: type[Any]) -> tuple[_Field, ...]:
    hints = typing.get_type_hints(cls, include_extras=True)
    found = []
    for field in dataclasses.fields(cls):
        form, key = _form(hints[field.name])
        factory = field.default_factory
        default = field.default if factory is MISSING else factory()
        found.append(_Field(field.name, key, form, default))
    return tuple(found)


@_once
def _written(cls: type[Described]) -> tuple[_Field, ...]:
    """All keys that are written, in their order."""
    found = [field for field in _fields(cls) if field.form is not None]
    for name, member in vars(cls).items():
        if isinstance(member, property):
            form, key = _form(typing.get_type_hints(member.fget, include_extras=True)["return"])
            if key is not _NO_KEY:
                found.append(_Field(name, key, form, MISSING))
    order = {name: at for at, name in enumerate(cls.ORDER)}
    return tuple(sorted(found, key=lambda one: order.get(one.key.within or one.name, len(order))))


_NO_KEY: Final = JsonKey()


def _form(hint: Any) -> tuple[Form | None, JsonKey]:
    """What a type says: the form that stands in it, or else that of the type itself."""
    if typing.get_origin(hint) is Annotated:
        base, *marks = typing.get_args(hint)
        if LOCAL in marks:
            return None, _NO_KEY
        key = next((mark for mark in marks if isinstance(mark, JsonKey)), _NO_KEY)
        form = next((mark for mark in marks if isinstance(mark, Form)), None)
        return form or _form(base)[0], key
    return _plain_form(hint), _NO_KEY


def _plain_form(hint: Any) -> Form | None:
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    parts = [form for one in arguments if (form := _form(one)[0]) is not None]
    if origin in (Union, types.UnionType) and parts:
        return Maybe(parts[0])
    if origin is tuple and parts:
        return ListOf(parts[0])
    if isinstance(origin, type) and issubclass(origin, Mapping) and len(parts) == 2:
        return MapOf(parts[0], parts[1])
    if isinstance(hint, type) and issubclass(hint, Described):
        return Object(hint)
    return FLAG if hint is bool else None


_Item = tuple[int, str, int, Step, bool]
"""Where a value goes, its key, up to how long text is taken as it is, its check, if it must be."""


def _fill(values: list[Any], given: Plain, items: Iterable[_Item]) -> None:
    for at, name, quick, read, needed in items:
        item = given.get(name, MISSING)
        if item is MISSING:
            if needed:
                raise BadValue("this key is missing", name)
        elif type(item) is str and len(item) <= quick:  # most values are short text
            values[at] = item
        else:
            try:
                values[at] = read(item)
            except BadValue as fault:
                raise fault.below(name) from None


def _quick(form: Form, how: ReadMode) -> int:
    inner = form.form if isinstance(form, Maybe) else form
    return inner.most if isinstance(inner, TextUpTo) and how is not ReadMode.OWN else -1


@_once
def _reader(cls: type[Described], how: ReadMode) -> Step:
    defaults = [field.default for field in _fields(cls)]
    inline: list[tuple[int, Step]] = []
    groups: dict[str, list[_Item]] = {"": []}
    for at, field in enumerate(_fields(cls)):
        key, form = field.key, field.form
        if form is None or (key.detail and how is ReadMode.COUNTS):
            continue
        read = form.reader(how)
        if key.inline:
            inline.append((at, read))
        else:
            item = (at, field.name, _quick(form, how), read, field.default is MISSING)
            groups.setdefault(key.within, []).append(item)
    own = groups.pop("")
    check = None if how is ReadMode.OWN or cls.check is Described.check else cls.check

    def read_object(given: Any) -> Any:
        values = defaults.copy()
        _fill(values, _mapping(given), own)
        for at, read in inline:
            values[at] = read(given)
        for name, items in groups.items():
            try:
                _fill(values, _mapping(given.get(name, {})), items)
            except BadValue as fault:
                raise fault.below(name) from None
        found = cls(*values)
        if check is not None:
            check(found)
        return found

    return read_object


@_once
def _writer(cls: type[Described]) -> Step:
    steps = [
        (one, form.writer(), MISSING if one.key.empty else one.default)
        for one in _written(cls)
        if (form := one.form) is not None
    ]

    def write(value: Described) -> Plain:
        found: Plain = {}
        for field, step, default in steps:
            item = getattr(value, field.attribute)
            if default is not MISSING and item == default:
                continue
            key = field.key
            if key.inline:
                found.update(step(item))
            else:
                at = found.setdefault(key.within, {}) if key.within else found
                at[field.name] = step(item)
        return found

    return write


def prepare(cls: type[Described]) -> None:
    """Read what a class says of its keys now, and not when it is first written or read.

    Later a test may have taken our modules out of ``sys.modules``, where types look names up.
    """
    _reader(cls, ReadMode.OWN)
    _writer(cls)


def _schema(cls: type[Described], definitions: Plain) -> Plain:
    about = {"description": cls.ABOUT[""]} if "" in cls.ABOUT else {}
    whole: Plain = {**about, "type": "object", "properties": {}, "required": []}
    for field in _written(cls):
        assert field.form is not None
        said, key, at = field.form.schema(definitions), field.key, whole
        if key.inline:
            whole["properties"] |= said["properties"]
            whole["required"] += said["required"] if key.always else []
            continue
        if key.within:
            inner = {"description": cls.ABOUT[key.within], "type": "object"}
            empty: Plain = {**inner, "properties": {}, "required": []}
            at = whole["properties"].setdefault(key.within, empty)
            whole["required"] += [] if key.within in whole["required"] else [key.within]
        says = {"description": key.says} if key.says else {}
        unique = {"uniqueItems": True} if key.unique else {}
        at["properties"][field.name] = {**says, **said, **unique}
        at["required"] += [field.name] if key.always else []
    return _defined(definitions, cls.DEFINITION, whole)


def read(cls: type[Own], data: object, how: ReadMode = ReadMode.WHOLE) -> Own:
    """What a stranger sent, held to the description. Raises ``BadValue``."""
    found: Own = _reader(cls, how)(data)
    return found


def schema(cls: type[Described]) -> Plain:
    """The JSON Schema of a whole document."""
    definitions: Plain = {}
    return {**_schema(cls, definitions), "$defs": definitions}
