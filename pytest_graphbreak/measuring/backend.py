"""Counts without the expensive compiler: the option ``graph_budget_backend``.

``torch.compile`` is replaced meanwhile: if no backend is asked for, or one that is to be
replaced, another one compiles. What Dynamo captures does not depend on it. ``suite.gate`` attaches
a ``Backend`` for the session; the patch is made once torch is imported (``hooks.LatePatch``).
"""

from __future__ import annotations

from typing import Any, Final

from pytest_graphbreak.layers.hooks import Hook, LatePatch, do_nothing

_INDUCTORS_OWN: Final = ("mode", "options")
"""The arguments of ``torch.compile`` for its default backend."""


class Backend(LatePatch):
    """Puts the backend ``name`` in place of none, and of those in ``instead_of``.

    ``torch.compile`` calls ``_compile`` instead: a hook is given the original function and the
    arguments. A torch without ``torch.compile`` has nothing to patch, so nobody is told of it.
    """

    def __init__(self, name: str, instead_of: tuple[str, ...] = ()) -> None:
        super().__init__("torch", "compile", self._compile, do_nothing)
        self.name = name
        self._instead_of = instead_of

    def _compile(self, original: Hook, *args: Any, **kwargs: Any) -> Any:
        return original(*args, **self._with_backend(kwargs))

    def _with_backend(self, kwargs: dict[str, Any]) -> dict[str, Any]:
        asked = kwargs.get("backend")
        if asked is not None and not (isinstance(asked, str) and asked in self._instead_of):
            return kwargs
        # These are options of the replaced backend, which another one does not know.
        options = {key: value for key, value in kwargs.items() if key not in _INDUCTORS_OWN}
        return {**options, "backend": self.name}
