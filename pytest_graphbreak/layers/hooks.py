"""Ways to put a sensor into torch: around a function, now or once its module is imported.

``Patch`` replaces one function, ``RuntimePatch`` one that each step of a model calls, ``LatePatch``
one of a module that may not be imported yet, ``ImportWatch`` calls back when modules are imported.
All are taken out again with the last open window.
"""

from __future__ import annotations

import functools
import sys
import threading
from collections.abc import Callable, Collection, Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from types import CodeType, FrameType, ModuleType
from typing import Any, Final

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
"""The Python frames between a caller and the original: of a ``Patch``, and of its hook."""

_PACKAGE: Final = __name__.partition(".")[0]


class Patch:
    """A function replaced by a wrapper that calls ``hook``, until it is put back.

    Another tool may have wrapped ours by the time it has to be removed. Then ours stays in the
    chain and only passes calls on: taking it out would throw the other wrapper away.
    """

    def __init__(self, owner: Any, attribute: str, hook: Hook, *, of_torch: bool = True) -> None:
        """Replace ``attribute``. Raises ``AttributeError`` if there is no such attribute.

        ``of_torch=False``: the function may be called where there is no torch, which is not
        imported for it.
        """
        self.owner = owner
        self.attribute = attribute
        self.original: Any = vars(owner).get(attribute) if isinstance(owner, type) else None
        kind = (
            type(self.original) if isinstance(self.original, (classmethod, staticmethod)) else None
        )
        if kind is None:
            self.original = getattr(owner, attribute)
        # A hook of another tool's that nobody has set is None.
        original: Hook = do_nothing if self.original is None else self.original
        original = original if kind is None else self.original.__func__
        self._inherited = isinstance(owner, type) and attribute not in vars(owner)
        self._live = True
        wrapper = functools.wraps(original)(self._wrapper(original, hook))
        if of_torch or _dynamo_is_imported():
            never_compile_function(wrapper)
        self.patched: Any = wrapper if kind is None else kind(wrapper)
        setattr(owner, attribute, self.patched)

    def _wrapper(self, original: Hook, hook: Hook) -> Hook:
        """Return the function that is put in."""

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
        if self._inherited:
            delattr(self.owner, self.attribute)
        else:
            setattr(self.owner, self.attribute, self.original)


class RuntimePatch(Patch):
    """A patch of a function that user code calls at run time.

    ``before`` and ``after`` are called around the original. A fault of theirs goes to ``failed``
    and never to the user's code. Dynamo's frame hook may be active then: it must not find our
    Python frames, or it would compile them. A step of a model calls several of these, so there is
    one frame of ours, and no hook in another.
    """

    def __init__(
        self, owner: Any, attribute: str, before: Before, after: After | None, failed: Failed
    ) -> None:
        """Replace ``attribute``. Raises ``AttributeError`` if there is no such attribute."""
        self._before = before
        self._after = after
        self._failed = failed
        super().__init__(owner, attribute, do_nothing)

    def _wrapper(self, original: Hook, hook: Hook) -> Hook:
        from pytest_graphbreak.layers.dynamo import private

        set_eval_frame = private.value(private.FRAME_HOOK)
        before, after, failed = self._before, self._after, self._failed

        def patched(*args: Any, **kwargs: Any) -> Any:
            __tracebackhide__ = True
            if not self._live:
                return original(*args, **kwargs)
            dynamo = set_eval_frame(None)
            token = result = None
            try:
                token = before(args)
            except Exception as fault:
                failed(before, fault)
            set_eval_frame(dynamo)
            if after is None:
                return original(*args, **kwargs)
            try:
                result = original(*args, **kwargs)
                return result
            finally:
                dynamo = set_eval_frame(None)
                try:
                    after(token, result)
                except Exception as fault:
                    failed(after, fault)
                set_eval_frame(dynamo)

        return patched


def note_hook(note: Note, failed: Callable[[Exception], None], *, after: bool = False) -> Hook:
    """Return a hook that notes a call before it makes it, or ``after`` it returned.

    A fault of ``note`` goes to ``failed`` and never to the user's code; in Dynamo's it would become
    an ``InternalTorchDynamoError``.
    """

    def note_safely(args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        try:
            note(args, kwargs)
        except Exception as fault:
            failed(fault)

    def hook(original: Hook, *args: Any, **kwargs: Any) -> Any:
        __tracebackhide__ = True
        if not after:
            note_safely(args, kwargs)
        result = original(*args, **kwargs)
        if after:
            note_safely(args, kwargs)
        return result

    return hook


def do_nothing(*args: Any, **kwargs: Any) -> None:
    """Do nothing."""


def count_calls(original: Hook, called: Callable[[Any], None], token: Any) -> Hook:
    """Return a function that calls ``called`` before each call of a compiled graph.

    ``called`` must not raise, and neither it nor what it calls may be compiled. All functions that
    are returned share the code ``COUNTING``, which the caller marks by ``never_compile``.
    """

    def counting(*args: Any) -> Any:
        __tracebackhide__ = True
        called(token)
        return original(*args)

    return counting


COUNTING: Final = next(
    code
    for code in count_calls.__code__.co_consts
    if isinstance(code, CodeType) and code.co_name == "counting"
)
"""The code of the function that ``count_calls`` returns. Code that Dynamo made calls it."""


def never_compile_function(function: Any) -> None:
    """Keep Dynamo from compiling a function of ours, wherever it meets it."""
    never_compile(function.__code__)


_NEVER_COMPILED: Final[dict[int, CodeType]] = {}
"""The code that is marked so, by its id: all patches of a kind share one. It takes some 20 us."""


def never_compile(code: CodeType) -> None:
    """Have Dynamo run this code as it is, from now on. Raises ``MissingName``."""
    from pytest_graphbreak.layers.dynamo import private

    if id(code) not in _NEVER_COMPILED:
        private.value(private.NEVER_COMPILED)(code)
        _NEVER_COMPILED[id(code)] = code


def _dynamo_is_imported() -> bool:
    """Return whether Dynamo is there as a whole: it imports Triton before it is (torch 2.9).

    If it is not, what it imported is marked with the first patch of Dynamo itself: all patches
    share one code object.
    """
    from pytest_graphbreak.layers.dynamo.private import NEVER_COMPILED

    return hasattr(sys.modules.get(NEVER_COMPILED.module), NEVER_COMPILED.chain)


def locate(module: ModuleType, chain: str) -> tuple[Any, str]:
    """Return the holder of a name, such as ``OutputGraph.call_user_compiler``, and its last part.

    Raises ``AttributeError`` if the name, or what should hold it, does not exist.
    """
    *path, last = chain.split(".")
    owner: Any = module
    for attribute in path:
        owner = getattr(owner, attribute)
    getattr(owner, last)
    return owner, last


class LatePatch:
    """A patch of a module that may be imported only while a window is open.

    ``failed`` is called if the function, or what a patch needs, does not exist: whoever imports the
    module must not be told. Torch is not imported for it.
    """

    def __init__(
        self, module: str, chain: str, hook: Hook, failed: Callable[[Exception], None]
    ) -> None:
        self._module = module
        self._chain = chain
        self._hook = hook
        self._failed = failed
        self._patch: Patch | None = None
        self._imports = ImportWatch([module], self._install)

    def attach(self) -> None:
        if self._module in sys.modules:
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
        try:
            owner, attribute = locate(sys.modules[self._module], self._chain)
            self._patch = Patch(owner, attribute, self._hook, of_torch=False)
        except Exception as fault:
            self._failed(fault)


class ImportWatch(MetaPathFinder):
    """Calls ``then`` after each import of one of ``modules``, by any code, while attached.

    It is a finder before all others, which leaves the finding to them and only follows the module's
    own loader to its end.
    """

    def __init__(self, modules: Collection[str], then: Callable[[], None]) -> None:
        self._modules = modules
        self._then = then
        self._asking = False

    def attach(self) -> None:
        if self not in sys.meta_path and not all(name in sys.modules for name in self._modules):
            sys.meta_path.insert(0, self)

    def detach(self) -> None:
        if self in sys.meta_path:
            sys.meta_path.remove(self)

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if self._asking or not self._wants(fullname):
            return None
        self._asking = True  # another finder may be one of these, too, and ask us
        try:
            for finder in list(sys.meta_path):
                find = getattr(finder, "find_spec", None)
                spec: ModuleSpec | None = find(fullname, path, target) if find else None
                if spec is not None:
                    self._follow(spec)
                    return spec
        finally:
            self._asking = False
        return None

    def _wants(self, name: str) -> bool:
        return name in self._modules

    def _load(self, load: Callable[[], None]) -> None:
        """Run the module by ``load``, then call ``then``."""
        load()
        self._then()

    def _follow(self, spec: ModuleSpec) -> None:
        """Have us called when the module is loaded. A loader that forbids it is left alone."""
        loader: Any = spec.loader
        if not hasattr(loader, "exec_module") or not hasattr(loader, "__dict__"):
            return
        before = vars(loader).get("exec_module")

        def exec_module(module: ModuleType) -> None:
            if before is None:
                del loader.exec_module  # now the class's own is in force again
            else:
                loader.exec_module = before
            self._load(functools.partial(loader.exec_module, module))

        loader.exec_module = exec_module


def caller() -> FrameType | None:
    """Return the innermost frame outside of this package: in a hook, the function's caller."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and _is_ours(frame):
        frame = frame.f_back
    return frame


def _is_ours(frame: FrameType) -> bool:
    name = frame.f_globals.get("__name__")
    return type(name) is str and name.partition(".")[0] == _PACKAGE


# Watching what modules do while they are imported, apart from what the importing code does.


class AroundImports(ImportWatch):
    """Calls ``before`` and ``after`` around each import in one thread that loads a module.

    What is imported in turn is part of the outermost import. Neither call may raise. Dynamo's
    frame hook may be active here, and must not find what they do (see ``RuntimePatch``).
    """

    def __init__(self, before: Callable[[], None], after: Callable[[], None]) -> None:
        # Here, and not while a module is imported: this import would be followed, too.
        from pytest_graphbreak.layers.dynamo.private import frame_hook

        super().__init__((), after)
        self._set_hook = frame_hook
        self._before = before
        self._thread = threading.get_ident()
        self._is_importing = False

    def attach(self) -> None:
        sys.meta_path.insert(0, self)

    def _wants(self, name: str) -> bool:
        return not self._is_importing and threading.get_ident() == self._thread

    def _load(self, load: Callable[[], None]) -> None:
        hook = self._set_hook(None)
        self._is_importing = True
        self._before()
        self._set_hook(hook)
        try:
            load()
        finally:
            hook = self._set_hook(None)
            self._is_importing = False
            self._then()
            self._set_hook(hook)
