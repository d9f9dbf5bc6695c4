"""Counting without the expensive compiler: ``graph_budget_backend``.

``torch.compile`` is replaced meanwhile: if no backend is asked for, or one that is to be replaced,
another one compiles. What Dynamo captures does not depend on it.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import Any

from pytest_graphbreak.layers.hooks import ImportWatch

_INDUCTORS_OWN = ("mode", "options")
"""The arguments of ``torch.compile`` for its default backend."""


class Backend:
    """Puts the backend ``name`` in place of none, and of those in ``instead_of``."""

    def __init__(self, name: str, instead_of: tuple[str, ...] = ()) -> None:
        self.name = name
        self._instead_of = instead_of
        self._original: Callable[..., Any] | None = None
        self._imports = ImportWatch(["torch"], self._install)

    def attach(self) -> None:
        """Replace ``torch.compile`` now, or as soon as torch is imported."""
        if "torch" in sys.modules:
            self._install()
        else:
            self._imports.attach()

    def detach(self) -> None:
        """Put torch's own function back, unless somebody has replaced it since."""
        self._imports.detach()
        torch: Any = sys.modules.get("torch")
        original, self._original = self._original, None
        if original is not None and getattr(torch.compile, "__wrapped__", None) is original:
            torch.compile = original

    def _install(self) -> None:
        self._imports.detach()
        torch = sys.modules["torch"]
        self._original = original = torch.compile

        @functools.wraps(original)
        def compile(*args: Any, **kwargs: Any) -> Any:
            return original(*args, **self._with_backend(kwargs))

        torch.compile = compile  # type: ignore[attr-defined]

    def _with_backend(self, kwargs: dict[str, Any]) -> dict[str, Any]:
        asked = kwargs.get("backend")
        if asked is not None and not (isinstance(asked, str) and asked in self._instead_of):
            return kwargs
        # These are options of the replaced backend, which another one does not know.
        options = {key: value for key, value in kwargs.items() if key not in _INDUCTORS_OWN}
        return {**options, "backend": self.name}
