"""JSON that is said once: a dataclass is an object, and each of its fields a key.

    class Graph(Described):
        layer: LayerName
        ops: Count | None = None
        sources: Annotated[tuple[Text, ...], JsonKey("What became this one.", name="from")] = ()

Reading, checking, writing and the JSON Schema come from these types, and from their ``forms``.
Keys that are not described are ignored; one that is missing has the default of its field, and one
without a default has to be there.
"""

from __future__ import annotations

import dataclasses
import types
import typing
from collections.abc import Callable, Iterable, Mapping
from dataclasses import MISSING, dataclass
from functools import cache
from typing import Annotated, Any, ClassVar, Final, TypeVar, Union

from pytest_graphbreak.model.forms import (
    FLAG,
    BadValue,
    Form,
    ListOf,
    MapOf,
    Maybe,
    Plain,
    ReadMode,
    Step,
    TextUpTo,
    defined,
    mapping,
)

Own = TypeVar("Own", bound="Described")
Function = TypeVar("Function", bound=Callable[..., Any])


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


def _once(function: Function) -> Function:
    """``functools.cache``, whose types take no class as an argument."""
    return typing.cast("Function", cache(function))


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
        _fill(values, mapping(given), own)
        for at, read in inline:
            values[at] = read(given)
        for name, items in groups.items():
            try:
                _fill(values, mapping(given.get(name, {})), items)
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
    return defined(definitions, cls.DEFINITION, whole)


def read(cls: type[Own], data: object, how: ReadMode = ReadMode.WHOLE) -> Own:
    """What a stranger sent, held to the description. Raises ``BadValue``."""
    found: Own = _reader(cls, how)(data)
    return found


def schema(cls: type[Described]) -> Plain:
    """The JSON Schema of a whole document."""
    definitions: Plain = {}
    return {**_schema(cls, definitions), "$defs": definitions}
