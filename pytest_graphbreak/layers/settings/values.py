"""Values of settings: compared, copied, and as JSON has them."""

from __future__ import annotations

import re
from typing import Any, Final

CONTAINERS: Final = (list, dict, set)
LONGEST: Final = 200
"""Characters of a value that is neither a number nor a flag; what is over is cut."""

_ADDRESS: Final = re.compile(r"0x[0-9a-f]+")


def spell(value: Any) -> Any:
    """A value as JSON has it: a flag, a number, text; of all else words that no address is in."""
    if value is None or isinstance(value, bool | int):
        return value
    if isinstance(value, float) and abs(value) < float("inf"):
        return value
    text = value if isinstance(value, str) else _words(value)
    return text if len(text) <= LONGEST else text[: LONGEST - 3] + "..."


def _words(value: Any) -> str:
    if isinstance(value, set | frozenset):
        return "{" + ", ".join(sorted(map(_words, value))) + "}"
    if isinstance(value, dict):
        pairs = (f"{_words(key)}: {_words(item)}" for key, item in value.items())
        return "{" + ", ".join(pairs) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(_words, value)) + "]"
    if callable(value) and hasattr(value, "__qualname__"):
        return f"{value.__module__}.{value.__qualname__}"
    return _ADDRESS.sub("0x...", repr(value))


def equal(one: Any, other: Any) -> bool:
    """Whether two values are of one type and equal; those that cannot be compared are not."""
    if one is other:
        return True
    try:
        return type(one) is type(other) and bool(one == other)
    except Exception:
        return False


def copied(value: Any) -> Any:
    """A container with copies of the containers in it; all else is itself."""
    if type(value) in (list, set):
        return type(value)(map(copied, value))
    if type(value) is dict:
        return {key: copied(item) for key, item in value.items()}
    return value


def refill(container: Any, value: Any) -> None:
    """Give a container its content back: others may hold it."""
    container.clear()
    if type(container) is list:
        container.extend(copied(value))
    else:
        container.update(copied(value))
