"""What modules do while they are imported, told apart from what the code does that imports them."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from typing import Any

from pytest_graphbreak.layers.hooks import ImportWatch

EVAL_FRAME = "torch._C._dynamo.eval_frame"


class AroundImports(ImportWatch):
    """Calls ``before`` and ``after`` around each import of one thread that loads a module.

    What is imported in turn is part of the outermost import. Neither call may raise. Dynamo's
    frame hook may be active here, and must not find what they do (see ``layers.hooks.beside``).
    """

    def __init__(self, before: Callable[[], None], after: Callable[[], None]) -> None:
        super().__init__((), after)
        self._before = before
        self._thread = threading.get_ident()
        self._is_importing = False

    def attach(self) -> None:
        sys.meta_path.insert(0, self)

    def _wants(self, name: str) -> bool:
        return not self._is_importing and threading.get_ident() == self._thread

    def _load(self, load: Callable[[], None]) -> None:
        hook = _set_hook(None)
        self._is_importing = True
        self._before()
        _set_hook(hook)
        try:
            load()
        finally:
            hook = _set_hook(None)
            self._is_importing = False
            self._then()
            _set_hook(hook)


def _set_hook(hook: Any) -> Any:
    """Dynamo's frame hook of this thread, which this one replaces; None where there is none."""
    native = sys.modules.get(EVAL_FRAME)
    return None if native is None else native.set_eval_frame(hook)
