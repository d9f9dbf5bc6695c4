"""Types of the values in the data, with their bounds, and functions to read and check data.

The data are msgspec Structs whose fields have these types (``record``, ``budget``, ``report``).
Reading, checking, writing and the JSON Schema are derived from the types. Unknown keys are ignored.
A missing key gets the default of its field; a key without a default is required.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, TypeVar

import msgspec
from msgspec import Meta, Struct, inspect

from pytest_graphbreak.model.layers import BREAKING, LAYERS

Plain = dict[str, Any]
"""A mapping of exact builtin types, as parsed from JSON."""

LONGEST_TEXT: Final = 20_000
"""Maximum number of characters of a text (a reason, a source line); longer ones are cut."""
LONGEST_FACT: Final = 200
"""Maximum number of characters of a version, a device or a platform; longer ones are cut."""
LONGEST_NAME: Final = 4096
"""Maximum number of characters of a node id or a file name; longer ones are refused."""
MOST_COUNT: Final = 10_000_000
"""The largest number of a report."""
MOST_SETTINGS: Final = 1000
"""The maximum number of settings of one test; more are refused."""
_CUT: Final = "..."
"""The end of a text that was cut."""
_SHOWN: Final = 200
"""Maximum number of characters of an error message, which may quote a long text of the input."""

OPTIONAL: Final = Meta(extra_json_schema={"optional": True})
"""Marks a key that the schema does not require. Reading takes its default, as of any key."""
LOCAL: Final = Meta(extra_json_schema={"local": True})
"""Marks a field that is not part of a report."""


def says(description: str) -> Meta:
    """Return metadata with the description of a key for the schema."""
    return Meta(description=description)


def definition(name: str) -> Meta:
    """Return metadata by which ``baseline.schemas`` defines a type once, under this name."""
    return Meta(extra_json_schema={"is": name})


Text = Annotated[str, Meta(max_length=LONGEST_TEXT)]
Fact = Annotated[str, Meta(max_length=LONGEST_FACT)]
Name = Annotated[str, Meta(min_length=1, max_length=LONGEST_NAME)]
Count = Annotated[int, Meta(ge=0, le=MOST_COUNT)]
Times = Annotated[int, Meta(ge=1, le=MOST_COUNT)]
Seconds = Annotated[float, Meta(ge=0, le=MOST_COUNT)]
AnyCause = Annotated[Text, definition("cause")]
"""The name of a cause; names of causes from reports of later versions are accepted as well."""

if TYPE_CHECKING:  # mypy knows no ``Literal`` of a variable
    LayerName = str
    Breaking = str
else:
    LayerName = Annotated[Literal[LAYERS], definition("layer")]
    Breaking = Annotated[Literal[BREAKING], definition("breaking")]

_BY_LAYER: Final = Meta(extra_json_schema={"propertyNames": {"$ref": "#/$defs/layer"}})
Counts = Annotated[Mapping[LayerName, Count], _BY_LAYER]
"""Numbers by layer."""
Runs = Annotated[Mapping[LayerName, Count | None], _BY_LAYER]
"""Numbers by layer; None where one is not known."""
Functions = Mapping[Text, Count]
"""Numbers of operations by ``file::qualified.name``."""
Settings = Annotated[
    Mapping[Fact, bool | int | float | Fact | None], Meta(max_length=MOST_SETTINGS)
]
"""Flags, numbers and texts, by the names of settings of torch."""

# A type of this module to read, and the class of an object itself.
Form = TypeVar("Form")
Own = TypeVar("Own", bound="Data")


class Data(Struct, frozen=True):
    """Base of the data that is passed between processes as a dict of exact builtin types."""

    def to_dict(self) -> Plain:
        data: Plain = msgspec.to_builtins(self)
        return data

    @classmethod
    def from_dict(cls: type[Own], data: Mapping[str, Any]) -> Own:
        """Create an object from the result of ``to_dict``. Raises ``BadValue``."""
        return read(cls, data)


def with_versions(base: type[Struct], packages: Iterable[str], kind: Any) -> type[Struct]:
    """Return a subclass of ``base`` with a key for the version of each of the packages.

    The packages are a parameter since the layers define them.
    """
    keys = [(name, kind, None) for name in packages]
    return msgspec.defstruct(base.__name__, keys, bases=(base,), frozen=True)


class BadValue(ValueError):
    """An error in the data: what is wrong, and at which place, such as ``tests[3].graphs``."""

    def __init__(self, message: str, place: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.place = place


def read(form: type[Form], data: object) -> Form:
    """Convert builtin types to ``form``, cutting texts that are too long.

    Raises ``BadValue``.
    """
    try:
        return msgspec.convert(data, form)
    except (msgspec.ValidationError, UnicodeError):
        # Texts are shortened only if the data is refused, since that goes through all of it.
        shorter = _shorten(data, inspect.type_info(form))
    try:
        return msgspec.convert(shorter, form)
    except msgspec.ValidationError as fault:
        raise _bad_value(fault) from None
    except UnicodeError:
        raise BadValue("half of a surrogate pair where a word or a mapping is expected") from None


def decode(form: type[Form], text: bytes) -> Form:
    """Convert JSON text to ``form``, like ``read``.

    Raises ``BadValue``, ``RecursionError``, and ``ValueError`` if the text is not JSON.
    """
    try:
        return msgspec.json.decode(text, type=form)
    except msgspec.DecodeError:  # invalid data, text that is too long, or a lone surrogate
        return read(form, json.loads(text, parse_constant=_no_constant))


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


def _shorten(value: Any, form: inspect.Type) -> Any:
    """Return a value with each text cut to the maximum length of its type.

    A ``Name`` is never cut, as it would be another name: it is the type with a ``min_length``.
    """
    match form, value:
        case inspect.Metadata(type=inner), _:
            return _shorten(value, inner)
        case inspect.UnionType(types=types), _:
            for member in types:
                value = _shorten(value, member)
        case inspect.StrType(min_length=None, max_length=int(most)), str() if len(value) > most:
            return value[: most - len(_CUT)] + _CUT
        case inspect.VarTupleType(item_type=inner), list() | tuple():
            return [_shorten(item, inner) for item in value]
        case inspect.DictType(key_type=key, value_type=inner), dict():
            return {_shorten(name, key): _shorten(item, inner) for name, item in value.items()}
        case inspect.StructType(fields=fields), dict():
            kinds = {field.encode_name: field.type for field in fields}
            return {
                name: _shorten(item, kinds[name]) for name, item in value.items() if name in kinds
            }
    return value


def _bad_value(fault: msgspec.ValidationError) -> BadValue:
    """Convert a msgspec error, such as ``Expected `int`, got `str` - at `$.tests[1].attempts```.

    An error in a key of a mapping ends with `` - at `key` in `$.graphs```, one in the whole data
    names no place.
    """
    text = str(fault)
    words, _, at = text.rpartition(" - at ")
    words, place = (words, at.rpartition("`$")[2].strip("`.")) if words else (text, "")
    return BadValue(words if len(words) <= _SHOWN else f"{words[:_SHOWN]}{_CUT}", place)
