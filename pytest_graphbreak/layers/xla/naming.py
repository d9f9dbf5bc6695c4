"""Names of the parts of an FX graph in the user's code: inputs, modules, ops.

``fx`` asks for them while a graph is lowered, by its nodes (``torch.fx.Node``): what Dynamo and
AOTAutograd wrote into their ``meta`` says where they come from. ``bridge`` notes each graph that
Dynamo made as a ``Compiled``: the graph that is lowered is made from that, and only that has the
user's names of all inputs.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from msgspec import Struct

_GETATTR = re.compile(r"\bgetattr\(([^()]{1,500}), '([^']{1,200})'\)")
"""``getattr(L['self'].blocks, '0')``"""
_SELF = "L__self___"
"""How Dynamo's name for a module of ``self`` begins, up to the module's own: ``..._downs_0``."""
_NUMBERED = re.compile(r"(?:primals|arg|args|input)?_?\d+(?:_\d+)?")
"""The names of inputs that torch made up: ``primals_1``, ``arg0_1``."""


class Compiled(Struct, frozen=True):
    """A graph of the dynamo layer: its compile id, and its inputs' names in the user's code.

    ``written`` is the file and the name of the ``forward`` that somebody wrote, if Dynamo compiled
    a decorator's wrapper around it.
    """

    id: str
    inputs: tuple[str, ...] = ()
    written: tuple[str, str] | None = None


def input_names(nodes: Iterable[Any], compiled: Compiled | None) -> tuple[str, ...]:
    """Return the names of a graph's inputs in the user's code, or its own if unknown."""
    user_names = compiled.inputs if compiled else ()
    nodes = list(nodes)
    paths = _module_paths(nodes)
    inputs = [node for node in nodes if is_input(node)]
    backward = any(node.name.startswith("tangents") for node in inputs)
    numbers = [_number_of(node, position, backward) for position, node in enumerate(inputs)]
    # An export lifts the module's parameters, and puts them before the user's inputs. With five
    # inputs and two names the first three are lifted, and 3 and 4 are the user's 0 and 1; a number
    # below 0 is nobody's.
    lifted = max(0, max((number + 1 for number in numbers), default=0) - len(user_names))
    return tuple(
        _input_name(node, position, user_names, number - lifted, backward=backward, paths=paths)
        for position, (node, number) in enumerate(zip(inputs, numbers, strict=True))
    )


def _number_of(node: Any, position: int, backward: bool) -> int:
    """Return the position of an input in the graph that this one was made from; -1 if none.

    AOTAutograd labels the inputs of its graphs (``desc``): ``PlainAOTInput(idx=2)`` was the third
    of Dynamo's. A graph without labels has the inputs of Dynamo's in their order; but a backward
    pass has what the forward pass kept for it.
    """
    label = node.meta.get("desc")
    if label is None:
        return -1 if backward else position
    is_input = type(label).__name__ == "PlainAOTInput"
    return int(label.idx) if is_input else -1


def _attribute(target: str, paths: Mapping[str, str]) -> str:
    """Return a parameter as the user wrote it, if Dynamo did not inline modules.

    Then it calls a module ``L__self___downs_0_conv_1`` (torch 2.13, torch/_dynamo/output_graph.py).
    """
    module, _, name = target.partition(".")
    if module in paths:
        return ".".join(filter(None, ("self", paths[module], name)))
    return f"self.{target.removeprefix(_SELF)}" if target.startswith(_SELF) else target


def _module_paths(nodes: Iterable[Any]) -> dict[str, str]:
    """Return the path of each module that nodes are in, by Dynamo's name for it."""
    return {
        str(key): _path(str(path))
        for node in nodes
        for key, (path, _) in (node.meta.get("nn_module_stack") or {}).items()
    }


def _input_name(
    node: Any,
    position: int,
    user_names: Sequence[str],
    number: int,
    *,
    backward: bool,
    paths: Mapping[str, str],
) -> str:
    """Return the name of an input: the ``number`` of ``user_names``, if nothing says more.

    The first of these that the node has names it::

        tangents_1                       the gradient that backward() starts from
        desc.target  (a parameter)       `self.head.weight`
        _dynamo_source                   `x`, from ``L['x']``
        its number                       the name that Dynamo gave the input of that number
        a line, in a backward pass       `mul`, kept by the forward pass,
        its position                     input 3
    """
    label = node.meta.get("desc")
    target = getattr(label, "target", None)
    # Set on placeholders by torch/_dynamo/output_graph.py (2.9.1, 2.13).
    source = getattr(node, "_dynamo_source", None)  # on the graphs that Dynamo hands over
    if node.name.startswith("tangents"):
        return "the gradient that backward() starts from"
    if target is not None:
        return f"`{_attribute(str(target), paths)}`"
    if source is not None:
        return source_name(dynamo_name(source))
    if 0 <= number < len(user_names):
        return user_names[number]
    if backward and node.meta.get("stack_trace"):
        return f"`{node.name}`, kept by the forward pass,"
    return f"input {position}" if _NUMBERED.fullmatch(node.name) else f"`{node.name}`"


def dynamo_name(source: Any) -> str:
    """Return Dynamo's name for a source. It is a method up to torch 2.9, a property later."""
    name = source.name
    return str(name() if callable(name) else name)


def source_name(source: str) -> str:
    """Return a name as the user wrote it.

    ``L['self']._modules['head'].scale`` is ```self.head.scale```. A size is given in words:
    ``L['x'].size()[0]`` is ``dimension 0 of `x```.
    """
    size = re.fullmatch(r"(?P<of>.*)\.size\(\)\[(?P<dim>\d+)\]", source)
    if size:
        return f"dimension {size['dim']} of {source_name(size['of'])}"
    if "___stack" in source:  # Dynamo's name for the value of a line up to the break
        return "the value of this line"
    name = re.sub(r"^[LG]\['([^']*)'\]", r"\1", source)
    name = re.sub(r"\._(?:modules|parameters|buffers)\['([^']*)'\]", r".\1", name)
    return f"`{name}`"


def module_path(node: Any) -> str | None:
    """Return the path of the innermost nn.Module around a node: ``blocks.0.linear``."""
    stack = node.meta.get("nn_module_stack")
    if not stack:
        return None
    path, _ = list(stack.values())[-1]
    return _path(str(path)) or None


def _path(source: str) -> str:
    """Return ``blocks.0.linear`` for ``L['self'].blocks[0].linear``."""
    while match := _GETATTR.search(source):  # Dynamo's notation for a name that is no identifier
        source = f"{source[: match.start()]}{match[1]}.{match[2]}{source[match.end() :]}"
    name = source_name(source).strip("`")
    name = re.sub(r"\[(?:'([^']*)'|(\d+))\]", r".\1\2", name)
    return name.removeprefix("self").removeprefix(".")


def common_module(nodes: Iterable[Any]) -> str | None:
    """Return the path of the module that all these nodes are in: ``blocks`` for ``blocks.0`` and
    ``blocks.1``."""
    paths = [(module_path(node) or "").split(".") for node in nodes]
    return ".".join(os.path.commonprefix(paths)) or None  # noqa: RUF071 - of items, not of letters


def op_name(node: Any) -> str:
    """Return ``aten::mul`` for ``aten.mul.Tensor``, and the own name of other functions."""
    match = re.fullmatch(r"(\w+)\.(\w+)(?:\.\w+)?", str(node.target))
    if match:
        return f"{match[1]}::{match[2]}"
    return getattr(node.target, "__name__", str(node.target))


def is_input(node: Any) -> bool:
    return bool(node.op == "placeholder")
