"""Looks into the objects of the user's program without running any of its code.

``guards`` and ``frames`` do so while Dynamo compiles. A class may define its truth, length, text,
comparison and attributes as functions, so none of these is asked for: only the dictionaries of
instances and exact builtin containers are looked into.
"""

from __future__ import annotations

import re
import sys
from collections import OrderedDict
from collections.abc import Mapping
from typing import Any, Final

NOTHING: Final = object()
"""What is returned where nothing is there: None may be a value."""

_START: Final = re.compile(r"^[A-Za-z_]\w*")
_STEP: Final = re.compile(r"\.([A-Za-z_]\w*)|\[(?:(\d+)|'([^']*)')\]")
"""``.layers``, ``[0]`` or ``['scale']``."""


def look_up(source: str, values: Mapping[str, Any]) -> Any:
    """Return the object that ``source`` names among ``values``, local variables, or ``NOTHING``.

    ``source`` is as Dynamo writes it in a guard: ``self.layers[0].scales['a']``.
    """
    start = _START.match(source)
    if start is None or start[0] not in values:
        return NOTHING
    value = values[start[0]]
    at = start.end()
    while at < len(source):
        step = _STEP.match(source, at)
        if step is None:
            return NOTHING
        value = _take_step(value, step)
        at = step.end()
    return value


def _take_step(value: Any, step: re.Match[str]) -> Any:
    attribute, index, key = step.groups()
    if attribute is not None:
        return instance_attribute(value, attribute)
    if key is not None:
        return dict.get(value, key, NOTHING) if type(value) is dict else NOTHING
    if type(value) in (list, tuple) and int(index) < len(value):
        return value[int(index)]
    return NOTHING


def instance_attribute(value: Any, attribute: str) -> Any:
    """Return what the dictionary of an instance has by that name, or ``NOTHING``."""
    return dict.get(_instance_dict(value), attribute, NOTHING)


def dict_attribute(value: Any, attribute: str) -> dict[str, Any]:
    """Return a dict that an instance has by that name; empty for another mapping, which runs code.

    A ScriptModule has an ``OrderedModuleDict`` of C++ there (torch/jit/_script.py of 2.13).
    """
    holder = _instance_dict(value).get(attribute)
    return holder if type(holder) is dict or type(holder) is OrderedDict else {}


def _instance_dict(value: Any) -> dict[str, Any]:
    """Return the dictionary of an instance; empty if it has none."""
    try:
        holder = object.__getattribute__(value, "__dict__")
    except AttributeError:
        return {}
    return holder if type(holder) is dict else {}


def is_module(value: Any) -> bool:
    """Return whether an object is a ``torch.nn.Module``, whatever it says that it is (a Mock)."""
    return issubclass(type(value), sys.modules["torch"].nn.Module)
