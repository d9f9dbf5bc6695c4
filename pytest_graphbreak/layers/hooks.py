"""Ways to put a sensor into torch: around a function, now or once its module is imported.

``Patch`` replaces one function, ``RuntimePatch`` one that each step of a model calls, ``LatePatch``
one of a module that may not be imported yet. All are taken out again with the last open window.
``count_calls`` wraps one compiled graph, which no module has by a name.

Code that Dynamo compiles may call what is put in, so it is marked (``layers.dynamo.kept_out``). By
``never_compile`` Dynamo runs a function as it is, and may compile what that calls: the original. By
``keep_out`` it leaves alone what that calls, too: our own work.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any, Final

from pytest_graphbreak.layers.dynamo.kept_out import keep_out, never_compile
from pytest_graphbreak.layers.faults import Tell, arrived, guard, is_ours
from pytest_graphbreak.layers.imports import ImportWatch, is_whole, loaded
from pytest_graphbreak.layers.private_names import locate

Hook = Callable[..., Any]
"""A function called as ``hook(original, *args, **kwargs)``; returns what the original returns."""

Note = Callable[[tuple[Any, ...], dict[str, Any]], None]
"""A function that handles the arguments of a call."""

Before = Callable[[tuple[Any, ...]], Any]
"""A function called with the positional arguments; what it returns is passed to ``After``."""

After = Callable[[Any, Any], object]
"""A function called with that token and the result. Either is None after an exception."""

Failed = Callable[[Hook, Exception], object]
"""A function called with a function of ours and what it raised."""

FRAMES: Final = 2
"""The Python frames between a caller and the original: ``patched`` of a ``Patch``, and its hook.

The sensor of Dynamo's ``_compile`` adds them to the frames that Dynamo leaves out of its logs.
"""


class Patch:
    """A function replaced by a wrapper that calls ``hook``, until it is put back.

    Another tool may have wrapped ours by the time it has to be removed. Then ours stays in the
    chain and only passes calls on: taking it out would throw the other wrapper away.
    """

    def __init__(self, owner: Any, attribute: str, hook: Hook) -> None:
        """Replace ``attribute``. Raises ``AttributeError`` if there is no such attribute."""
        self.owner = owner
        self.attribute = attribute
        self._hook = hook
        # Not getattr: a classmethod or staticmethod has to be put back as such.
        self.original: Any = vars(owner).get(attribute) if isinstance(owner, type) else None
        kind: Any = None
        if isinstance(self.original, (classmethod, staticmethod)):
            kind, original = type(self.original), self.original.__func__
        else:
            self.original = getattr(owner, attribute)
            # A hook of another tool's that nobody has set is None.
            original = do_nothing if self.original is None else self.original
        self._inherited = isinstance(owner, type) and attribute not in vars(owner)
        self._live = True
        wrapper = functools.wraps(original)(self._wrapper(original))
        _mark(wrapper, hook)
        self.patched: Any = wrapper if kind is None else kind(wrapper)
        setattr(owner, attribute, self.patched)

    def _wrapper(self, original: Hook) -> Hook:
        """Return the function that is put in."""
        hook = self._hook

        def patched(*args: Any, **kwargs: Any) -> Any:
            __tracebackhide__ = True
            if not self._live:
                return original(*args, **kwargs)
            return hook(original, *args, **kwargs)

        return patched

    def remove(self) -> None:
        self._live = False
        if vars(self.owner).get(self.attribute) is not self.patched:
            return
        if self._inherited:  # the original is a base class's
            delattr(self.owner, self.attribute)
        else:
            setattr(self.owner, self.attribute, self.original)


def _mark(wrapper: Hook, hook: Hook) -> None:
    """Mark what is put in, and what hooks call, for Dynamo.

    At each patch, since without torch ``never_compile`` does nothing; code that is marked already
    costs a look-up, and all wrappers of a kind share one.
    """
    for ours in (wrapper, hook):
        if (code := getattr(ours, "__code__", None)) is not None:
            never_compile(code)
    for ours in (_tell, guard.__init__, guard.__enter__, guard.__exit__):
        keep_out(ours)


class RuntimePatch(Patch):
    """A patch of a function that user code calls at run time.

    ``before`` and ``after`` are called around the original. A fault of theirs goes to ``failed``
    and never to the user's code. A step of a model calls several of these, so there is one frame of
    ours, and no hook in another.
    """

    def __init__(
        self, owner: Any, attribute: str, before: Before, after: After | None, failed: Failed
    ) -> None:
        """Replace ``attribute``. Raises ``AttributeError`` if there is no such attribute."""
        self._before = before
        self._after = after
        self._failed = failed
        keep_out(before)
        if after is not None:
            keep_out(after)
        super().__init__(owner, attribute, do_nothing)  # the wrapper calls no hook

    def _wrapper(self, original: Hook) -> Hook:
        before, after, failed = self._before, self._after, self._failed

        def patched(*args: Any, **kwargs: Any) -> Any:
            __tracebackhide__ = True
            if not self._live:
                return original(*args, **kwargs)
            token = result = None
            try:
                try:
                    token = before(args)
                except Exception as fault:
                    if arrived(fault, sys.exc_info()[2]):
                        raise
                    failed(before, fault)
                result = original(*args, **kwargs)
                return result
            finally:
                if after is not None:
                    try:
                        after(token, result)
                    except Exception as fault:
                        if arrived(fault, sys.exc_info()[2]):
                            raise
                        failed(after, fault)

        return patched


def note_hook(note: Note, failed: Tell, *, after: bool = False) -> Hook:
    """Return a hook that notes a call before it makes it, or ``after`` it returned.

    A fault of ``note`` goes to ``failed`` and never to the user's code; in Dynamo's it would become
    an ``InternalTorchDynamoError``.
    """

    def hook(original: Hook, *args: Any, **kwargs: Any) -> Any:
        __tracebackhide__ = True
        if not after:
            _tell(note, failed, args, kwargs)
        result = original(*args, **kwargs)
        if after:
            _tell(note, failed, args, kwargs)
        return result

    return hook


def _tell(note: Note, failed: Tell, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Call ``note``, and hand its fault to ``failed``: all of ours in one function, kept out."""
    with guard(failed):
        note(args, kwargs)


def argument(name: str, position: int, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Return an argument of a call, which was given by name or by position."""
    return kwargs[name] if name in kwargs else args[position]


def do_nothing(*args: Any, **kwargs: Any) -> None:
    """Do nothing."""


def count_calls(original: Hook, called: Callable[[Any], None], token: Any) -> Hook:
    """Return a function that calls ``called`` before each call of a compiled graph.

    ``called`` must not raise. All functions that are returned share the code ``COUNTING``, which
    the caller marks by ``never_compile``, and ``called`` by ``keep_out``.
    """

    def counting(*args: Any) -> Any:
        __tracebackhide__ = True
        called(token)
        return original(*args)

    return counting


COUNTING: Final = count_calls(do_nothing, do_nothing, None).__code__
"""The code of the function that ``count_calls`` returns. Code that Dynamo made calls it."""


class LatePatch:
    """A patch of a module that may be imported only while a window is open.

    ``failed`` is called if the function, or what a patch needs, does not exist: whoever imports the
    module must not be told. Torch is not imported for it.
    """

    def __init__(self, module: str, chain: str, hook: Hook, failed: Tell) -> None:
        self._module = module
        self._chain = chain
        self._hook = hook
        self._failed = failed
        self._patch: Patch | None = None
        self._imports = ImportWatch([module], self._install)

    def attach(self) -> None:
        if is_whole(self._module):
            self._install()
        else:
            self._imports.attach()

    def detach(self) -> None:
        self._imports.detach()
        if self._patch is not None:
            self._patch.remove()
            self._patch = None

    def _install(self) -> None:
        self._imports.detach()
        module = loaded(self._module)
        if module is None:  # a Mock: there is nothing to watch
            return
        with guard(self._failed):
            self._patch = Patch(*locate(module, self._chain), self._hook)


def caller() -> FrameType | None:
    """Return the innermost frame outside of this package: in a hook, the function's caller."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and is_ours(frame):
        frame = frame.f_back
    return frame
