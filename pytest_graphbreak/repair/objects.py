"""What a program holds: its variables, the attributes of its objects, and its modules.

``measure`` keeps what a program holds at its end, to compare it with a patched one. ``Capture``
and ``Drawing`` put all of it back before a compiled function is called once more.

All is found from the variables of the program and from what it compiles: also modules that a
function closes over, that a list holds, or that a method has. Objects are named by their class,
since a patch may give them to other variables.

How far it is followed depends on whose a file is:

| is looked into | the user's | an installed package's | of torch or Python |
| --- | --- | --- | --- |
| variables of a module that is named, or whose function uses them | yes | no | no |
| what a function closes over, and its defaults | yes | yes | no |
| classes and their objects | yes | yes | modules, optimizers |

The first column is ``_is_own``, the first two are "written" (``Places.is_written``).
"""

from __future__ import annotations

import functools
import sys
import types
from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import torch

from pytest_graphbreak.model.places import places
from pytest_graphbreak.repair.values import Flat, attributes, flatten, is_lazy

_DATA: Final = (bool, int, float, complex, str, bytes, torch.Tensor)
"""Types whose objects lead to no others."""
_SEQUENCES: Final = (list, tuple, deque, set, frozenset)
"""Containers that are looked into, besides mappings."""
_OF_MODULES: Final = {*vars(torch.nn.Module())} - {"training"}
"""The attributes that each module has, of torch's own."""
_MOST: Final = 20_000
"""The number of objects that are looked at."""
PutBack = Callable[[], None]
"""Gives everything that was reached the values back that it had."""


class Reached:
    """All that is reached from variables and from objects that have no name.

    It is found once, when this is made; ``values`` reads it as it is then, and ``keep`` notes it to
    put it back later.
    """

    def __init__(self, variables: Mapping[str, Any], others: Iterable[Any] = ()) -> None:
        self.owners: dict[str, Any] = {}
        """Modules and objects of the program's classes, by class and number: ``Net``, ``Net 2``."""
        self.complete = True
        """Whether nothing was left out beyond ``_MOST``."""
        self._values: dict[str, Any] = {}
        """Data and containers by the variable in which they were found first."""
        self._cells: list[types.CellType] = []
        """The variables that functions close over."""
        self._globals: list[tuple[dict[str, Any], str]] = []
        """Variables that functions use, each with the ``__dict__`` of its module."""
        self._containers: list[Any] = []
        """The containers that can change."""
        self._alive: dict[int, Any] = {}
        """What was visited, by its ``id``: an object that is held keeps its own."""
        self._of_class: Counter[str] = Counter()
        """The number of owners of each class."""
        self._places = places(Path.cwd())
        # Variables that hold functions come last: where a patch adds one that closes over a list
        # as ``inner``, the list is still named after its own variable, ``losses``. Functions
        # without a name are behind all variables in the queue.
        functions: deque[Any] = deque()
        queue = deque([*variables.items(), *(("", value) for value in others)])
        while queue or functions:
            name, value = queue.popleft() if queue else ("", functions.popleft())
            if isinstance(value, types.FunctionType) and name:
                functions.append(value)
            elif len(self._alive) < _MOST:
                queue.extend(self._visit(name, value))
            else:
                self.complete = False

    # Finding: what a value leads to.

    def _visit(self, name: str, value: Any) -> list[tuple[str, Any]]:
        """Note a value, and return what it leads to, each with its name."""
        value = value._orig_mod if isinstance(value, torch._dynamo.OptimizedModule) else value
        if isinstance(value, _DATA) or value is None:
            if name:
                self._values.setdefault(name, value)
            return []
        if id(value) in self._alive:
            return []
        self._alive[id(value)] = value
        return self._inside(name, value)

    def _inside(self, name: str, value: Any) -> list[tuple[str, Any]]:
        """Return what an object leads to, by its kind."""
        if isinstance(value, (Mapping, *_SEQUENCES)):
            return self._container(name, value)
        if isinstance(value, types.MethodType):
            return [("", value.__self__), ("", value.__func__)]
        if isinstance(value, functools.partial):
            return [("", part) for part in (value.func, *value.args, *value.keywords.values())]
        if isinstance(value, types.FunctionType):
            return self._function(value)
        if isinstance(value, types.ModuleType):
            is_own = name and self._is_own(getattr(value, "__file__", None) or "")
            return _members(value.__name__, value) if is_own else []
        if isinstance(value, type):
            return _members(f"class {value.__name__}", value) if self._is_written(value) else []
        is_module = isinstance(value, torch.nn.Module)
        if is_module or self._is_written(type(value)) or _has_state(value):
            return self._owner(value)
        return []

    def _container(self, name: str, value: Any) -> list[tuple[str, Any]]:
        """Note a container, and return its parts, which have no name of their own."""
        if name:
            self._values.setdefault(name, value)
        if isinstance(value, list | dict | set | deque):
            self._containers.append(value)
        return [("", part) for part in (value.values() if isinstance(value, Mapping) else value)]

    def _function(self, function: types.FunctionType) -> list[tuple[str, Any]]:
        """Return what a function closes over, and the variables of its module that it uses."""
        code, wrapped = function.__code__, getattr(function, "__wrapped__", None)
        names: list[tuple[str, Any]] = [("", wrapped)]
        if not self._places.is_written(code.co_filename):
            return names
        for variable, cell in zip(code.co_freevars, function.__closure__ or (), strict=False):
            with suppress(ValueError):  # a variable that is not set
                names.append((variable, cell.cell_contents))
                self._cells.append(cell)
        names += [("", part) for part in function.__defaults__ or ()]
        if self._is_own(code.co_filename):
            space = function.__globals__
            names += [(name, space[name]) for name in _used(code) if name in space]
            # Objects and containers are put back by what they hold; these change by a new one only.
            immutable = bool | int | float | str
            self._globals += [
                (space, name) for name in _used(code) if isinstance(space.get(name), immutable)
            ]
        return names

    def _owner(self, value: Any) -> list[tuple[str, Any]]:
        """Note an object by its class (``Net``, ``Net 2``), and return its attributes."""
        kind = type(value).__name__
        self._of_class[kind] += 1
        count = self._of_class[kind]
        name = kind if count == 1 else f"{kind} {count}"
        self.owners[name] = value
        if isinstance(value, torch.nn.Module):
            parts = [*value.modules()]
            self._alive |= {id(part): part for part in parts}
            return [
                ("", attribute)
                for part in parts
                for key, attribute in vars(part).items()
                if key not in _OF_MODULES
            ]
        return [("", part) for part in attributes(value).values()]

    def _is_written(self, kind: type) -> bool:
        """Return whether a class is of the user or of an installed package."""
        module = sys.modules.get(kind.__module__)
        return self._places.is_written(getattr(module, "__file__", None) or "")

    def _is_own(self, file: str) -> bool:
        """Return whether a file is the user's, and not that of an installed package."""
        return self._places.is_written(file) and not self._places.is_installed(file)

    # What was found, as it is now.

    @property
    def modules(self) -> list[torch.nn.Module]:
        """The modules among the owners. A module in another one is a part of that."""
        return [owner for owner in self.owners.values() if isinstance(owner, torch.nn.Module)]

    def values(self, *, weights: bool = True) -> dict[str, Flat]:
        """Return all values by name: with ``weights`` also parameters, buffers, and gradients."""
        names = dict(self._values)
        for name, owner in self.owners.items():
            names |= _values_of(name, owner, weights)
        flat: dict[str, Flat] = {}
        for name, value in names.items():
            with suppress(Exception):  # of a tensor without values, or a class of the program
                flat[name] = flatten(value, opened=False)
        return flat

    # Putting back.

    def keep(self) -> PutBack:
        """Note all values, and return what sets them again."""
        spaces = [vars(part) for part in self._parts() if hasattr(part, "__dict__")]
        modules = [part for part in self._parts() if isinstance(part, torch.nn.Module)]
        spaces += [space for part in modules for space in (part._buffers, part._parameters)]
        before = [(space, dict(space)) for space in spaces]
        cells = [(cell, cell.cell_contents) for cell in self._cells]
        variables = [(space, name, space[name]) for space, name in self._globals if name in space]
        containers = [(value, value.copy()) for value in self._containers]
        everything = [
            *(value for _, space in before for value in space.values()),
            *self._values.values(),
        ]
        tensors = {id(value): value for value in everything if isinstance(value, torch.Tensor)}
        # A copy of a lazy one would be a graph.
        data = [(x, x.detach().clone(), x.grad) for x in tensors.values() if not is_lazy(x)]

        def put_back() -> None:
            for space, names in before:
                if _bound(space) != _bound(names):
                    space.clear()
                    space.update(names)
            for space, name, value in variables:
                space[name] = value
            for cell, content in cells:
                cell.cell_contents = content
            for value, content in containers:
                _refill(value, content)
            for tensor, copy, grad in data:
                with suppress(Exception), torch.no_grad():  # of an inference tensor
                    tensor.copy_(copy)
                    tensor.grad = grad

        return put_back

    def _parts(self) -> list[Any]:
        """Return all objects whose attributes are put back: owners, and the modules in modules."""
        parts: list[Any] = []
        for owner in self.owners.values():
            parts += owner.modules() if isinstance(owner, torch.nn.Module) else [owner]
        return parts


def _values_of(name: str, owner: Any, weights: bool) -> dict[str, Any]:
    """Return the values of a module or an object, by name."""
    if not isinstance(owner, torch.nn.Module):
        state = owner.state_dict() if _has_state(owner) else None
        if state is not None:
            return {f"{name}.state": state}
        return {f"{name}.{key}": value for key, value in _data(attributes(owner)).items()}
    values: dict[str, Any] = {}
    for path, part in owner.named_modules():
        stem = f"{name}.{path}." if path else f"{name}."
        names = {key: value for key, value in vars(part).items() if key not in _OF_MODULES}
        values |= {f"{stem}{key}": value for key, value in _data(names).items()}
        if weights:
            values |= {f"{stem}{key}": value for key, value in part._buffers.items()}
            values |= {f"{stem}{key}": value for key, value in part._parameters.items()}
    if weights:
        for key, parameter in owner.named_parameters():
            values[f"gradient of {name}.{key}"] = parameter.grad
    return values


def _members(name: str, owner: Any) -> list[tuple[str, Any]]:
    """Return the variables of a module or a class, each with its name."""
    return [(f"{name}.{key}", value) for key, value in vars(owner).items() if key[:2] != "__"]


def _data(names: Mapping[str, Any]) -> dict[str, Any]:
    """Return the attributes that are data or containers, by name. Other objects are owners."""
    kinds = (*_DATA, type(None), Mapping, *_SEQUENCES)
    return {name: value for name, value in names.items() if isinstance(value, kinds)}


def _has_state(value: Any) -> bool:
    """Return whether an object of torch's has a state of its own: optimizers, schedulers."""
    kind = type(value)
    return kind.__module__.startswith("torch.") and hasattr(kind, "state_dict")


def _bound(space: Mapping[str, Any]) -> list[tuple[str, int]]:
    """Return each name with the identity of its object."""
    return [(name, id(value)) for name, value in space.items()]


def _refill(value: Any, before: Any) -> None:
    """Give a container what it had."""
    value.clear()
    (value.update if isinstance(value, dict | set) else value.extend)(before)


def _used(code: types.CodeType) -> list[str]:
    """Return the names that a function uses, also in the functions that it defines."""
    inner = [part for part in code.co_consts if isinstance(part, types.CodeType)]
    return [*code.co_names, *(name for part in inner for name in _used(part))]
