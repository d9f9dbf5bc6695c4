"""Kinds of values of the data, each with its bounds; how data is read, and what is wrong with it.

The data are msgspec Structs whose fields are of these kinds (``record``, ``budget``, ``report``).
Reading, checking, writing and the JSON Schema come from their types. Keys that no field has are
ignored; one that is missing has the default of its field, and one without a default must be there.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, TypeVar

import msgspec
from msgspec import Meta, Struct, inspect

from pytest_graphbreak.model.layers import BREAKING, LAYERS

Plain = dict[str, Any]
"""A mapping of exact builtin types, as JSON would give it."""

LONGEST_TEXT: Final = 20_000
"""Characters of a text (a reason, a line of source); what is over is cut."""
LONGEST_FACT: Final = 200
"""Characters of a version, a device, a platform; what is over is cut."""
LONGEST_NAME: Final = 4096
"""Characters of a node id or a file name; a longer one is refused."""
MOST_COUNT: Final = 10_000_000
MOST_SETTINGS: Final = 1000
_CUT: Final = "..."
_SHOWN: Final = 200
"""Characters of a fault: it may quote a long text of the input."""

OPTIONAL: Final = Meta(extra_json_schema={"optional": True})
"""Marks a key that a report may lack."""
LOCAL: Final = Meta(extra_json_schema={"local": True})
"""Marks a field that a report does not have."""


def says(description: str) -> Meta:
    """What the schema says of a key beside its type."""
    return Meta(description=description)


def defined(name: str) -> Meta:
    """Where the schema describes a kind of value: once, by this name."""
    return Meta(extra_json_schema={"is": name})


Text = Annotated[str, Meta(max_length=LONGEST_TEXT)]
Fact = Annotated[str, Meta(max_length=LONGEST_FACT)]
Name = Annotated[str, Meta(min_length=1, max_length=LONGEST_NAME)]
Count = Annotated[int, Meta(ge=0, le=MOST_COUNT)]
Times = Annotated[int, Meta(ge=1, le=MOST_COUNT)]
Seconds = Annotated[float, Meta(ge=0, le=MOST_COUNT)]
AnyCause = Annotated[Text, defined("cause")]
"""One of the causes; what a report of a later version names is taken, too."""

if TYPE_CHECKING:  # the words are known when the layers are
    LayerName = str
    Breaking = str
else:
    LayerName = Annotated[Literal[LAYERS], defined("layer")]
    Breaking = Annotated[Literal[BREAKING], defined("breaking")]

Counts = Annotated[
    Mapping[LayerName, Count], Meta(extra_json_schema={"propertyNames": {"$ref": "#/$defs/layer"}})
]
"""Numbers by layer."""
Functions = Mapping[Text, Count]
"""Numbers of operations by ``file::qualified.name``."""
Settings = Annotated[
    Mapping[Fact, bool | int | float | Fact | None], Meta(max_length=MOST_SETTINGS)
]
"""Flags, numbers and text by the names of settings of torch."""

Form = TypeVar("Form")
Own = TypeVar("Own", bound="Data")


class Data(Struct, frozen=True):
    """What crosses processes as a dict of exact builtin types."""

    def to_dict(self) -> Plain:
        found: Plain = msgspec.to_builtins(self)
        return found

    @classmethod
    def from_dict(cls: type[Own], data: Mapping[str, Any]) -> Own:
        """The inverse of ``to_dict``. Raises ``BadValue``."""
        return read(cls, data)


def versioned(base: type[Struct], packages: Iterable[str], kind: Any) -> type[Struct]:
    """The same with a key for the version of each package: which there are, the layers say."""
    keys = [(name, kind, None) for name in packages]
    return msgspec.defstruct(base.__name__, keys, bases=(base,), frozen=True)


class BadValue(ValueError):
    """What is wrong, and where: ``place`` is like ``tests[3].graphs``."""

    def __init__(self, message: str, place: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.place = place


def read(form: type[Form], data: object) -> Form:
    """Builtin types as their description has them; text that is too long is cut.

    Raises ``BadValue``.
    """
    try:
        return msgspec.convert(data, form)
    except (msgspec.ValidationError, UnicodeError):
        shorter = _shortened(data, inspect.type_info(form))
    try:
        return msgspec.convert(shorter, form)
    except msgspec.ValidationError as fault:
        raise _bad_value(fault) from None
    except UnicodeError:
        raise BadValue("half of a surrogate pair where a word or a mapping is expected") from None


def decode(form: type[Form], text: bytes) -> Form:
    """The same of JSON. Raises ``BadValue``, ``RecursionError``, and ``ValueError`` for no JSON."""
    try:
        return msgspec.json.decode(text, type=form)
    except msgspec.DecodeError:  # a fault, text that is too long, or half of a surrogate pair
        return read(form, json.loads(text, parse_constant=_no_constant))


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


def _shortened(value: Any, form: inspect.Type) -> Any:
    """A value with each text cut to what its type allows. Where a name is expected, none is."""
    match form, value:
        case inspect.Metadata(type=inner), _:
            return _shortened(value, inner)
        case inspect.UnionType(types=types), _:
            for one in types:
                value = _shortened(value, one)
        case inspect.StrType(min_length=None, max_length=int(most)), str() if len(value) > most:
            return value[: most - len(_CUT)] + _CUT
        case inspect.VarTupleType(item_type=inner), list() | tuple():
            return [_shortened(item, inner) for item in value]
        case inspect.DictType(key_type=key, value_type=inner), dict():
            return {_shortened(name, key): _shortened(item, inner) for name, item in value.items()}
        case inspect.StructType(fields=fields), dict():
            known = {field.encode_name: field.type for field in fields}
            return {
                name: _shortened(item, known[name]) for name, item in value.items() if name in known
            }
    return value


def _bad_value(fault: msgspec.ValidationError) -> BadValue:
    """What msgspec says, such as ``Expected `int`, got `str` - at `$.tests[1].attempts```."""
    words, _, at = str(fault).rpartition(" - at ")
    words, place = (words, at.rpartition("`$")[2].strip("`.")) if words else (at, "")
    return BadValue(words if len(words) <= _SHOWN else f"{words[:_SHOWN]}{_CUT}", place)
