"""The private names of a compiler: how one is looked up, and what is raised where it is missing."""

from __future__ import annotations

from typing import Any


class MissingName(Exception):
    """A private name of a compiler is missing; the text says which one, and what it is used for."""


def locate(holder: Any, chain: str) -> tuple[Any, str]:
    """Return the holder of a name, such as ``OutputGraph.call_user_compiler``, and its last part.

    Raises ``AttributeError`` if the name, or what should hold it, does not exist.
    """
    *path, last = chain.split(".")
    for attribute in path:
        holder = getattr(holder, attribute)
    getattr(holder, last)
    return holder, last
