"""Why a graph was compiled and not loaded from a cache, as far as torch says it.

A graph may come from AOTAutograd's cache, which has whole functions, forward and backward graphs
together, or from inductor's own, the FX graph cache. Each is asked by a key, and is bypassed where
torch cannot make one. In the order in which they are called, for one graph::

    autograd_cache_key           AOTAutograd's key; raises where its cache is bypassed
    FxGraphCache.prepare_key     inductor's (key, info); key is None where its cache is bypassed
    CompiledFxGraph              the graph is made; not if one of the caches had it
    post_compile                 the graph is ready: ``sensors`` asks ``why_compiled``

``sensors`` has one ``CacheReasons`` for the process, and puts its two hooks in. They only explain:
where a torch has no such function, reasons have fewer words.

Sources: torch/_functorch/_aot_autograd/autograd_cache.py and torch/_inductor/codecache.py of 2.9
and 2.13.
"""

from __future__ import annotations

import re
import sys
import threading
from typing import Any, Final

from pytest_graphbreak.layers.dynamo.private import compile_id
from pytest_graphbreak.layers.faults import Tell, guard
from pytest_graphbreak.layers.hooks import Hook

MOST_REASON: Final = 300
"""The most characters of a reason that are kept."""
_ADDRESS: Final = re.compile(r"0x[0-9a-f]+")
"""The address in ``Unsupported call_function target <function f at 0x7f3a5c>``."""


class _LastBypass(threading.local):
    """Why inductor bypassed its own cache for the graph that this thread compiles; empty if not."""

    bypass = ""


class CacheReasons:
    """What the two caches said of the graphs that are being compiled."""

    def __init__(self, failed: Tell) -> None:
        self._failed = failed
        self._last = _LastBypass()
        self._autograd: dict[str | int, str] = {}
        """What AOTAutograd's cache said of a function, by ``_function``::

            (no entry)     it was not asked: it is off, or what is compiled has none
            ""             it was asked
            "..."          it was bypassed, for this reason

        The backward graph is compiled later, with the same compile id, and belongs to it, too."""

    def forget(self) -> None:
        """Forget what earlier code was told."""
        self._autograd.clear()

    def on_autograd_key(self, original: Hook, *args: Any, **kwargs: Any) -> Any:
        """Handle ``autograd_cache_key(...)``."""
        function = _function()
        try:
            result = original(*args, **kwargs)
        except Exception as fault:
            with guard(self._failed):
                self._autograd[function] = _one_line(str(fault)) or type(fault).__name__
            raise
        self._autograd[function] = ""
        return result

    def on_inductor_key(self, original: Hook, *args: Any, **kwargs: Any) -> Any:
        """Handle ``FxGraphCache.prepare_key(...)``."""
        result = original(*args, **kwargs)
        with guard(self._failed):
            key, info = result
            reason = "" if key else _one_line(str(info.get("cache_bypass_reason")))
            self._last.bypass = reason
        return result

    def autograd_bypass(self) -> str:
        """Return why AOTAutograd bypassed its cache for what is compiled; empty if it did not."""
        return self._autograd.get(_function(), "")

    def why_compiled(self, key: str) -> str:
        """Return why no cache had the graph that is ready now, empty if torch does not say it.

        ``key`` is the graph's key in inductor's cache, empty if that was not asked. To be called
        once for each graph, also for a graph that was loaded.
        """
        bypass, self._last.bypass = self._last.bypass, ""
        config = sys.modules.get("torch._inductor.config")
        if getattr(config, "force_disable_caches", False):
            return "caches are off (torch._inductor.config.force_disable_caches)"
        if not (getattr(config, "fx_graph_cache", True) or key):
            return "the cache is off (torch._inductor.config.fx_graph_cache)"
        if autograd := self.autograd_bypass():
            return f"AOTAutograd bypassed its cache, so it is traced at every start: {autograd}"
        if bypass:
            return f"inductor bypassed its cache: {bypass}"
        was_asked = _function() in self._autograd
        return "AOTAutograd's cache did not have it" if was_asked and not key else ""


def _function() -> str | int:
    """Return what is compiled: a frame of Dynamo by its compile id, else what this thread does."""
    id = compile_id()
    return threading.get_ident() if id is None else str(id)


def _one_line(text: str) -> str:
    """Return a reason of torch without what changes from run to run."""
    return _ADDRESS.sub("0x...", " ".join(text.split()))[:MOST_REASON]
