"""The sensors of JAX: a hook around the compilation of a program while a window is open.

Sensors are global to the process: they go in with the first open window and come out with the last.
What JAX calls for a program that it does not have, in this order, and who handles it here::

    compile_or_get_cached             _around_compile   an Executable: whose it is, why, how long
        backend_compile_and_load      _around_backend   not called if the persistent cache has it
    record_event_duration_secs        _note_duration    JAX's own count of programs
    _is_under_reraiser                _note_exception   an exception leaves a function of JAX

A program that JAX counted and the first hook did not see is reported as an error. Each hook appends
an event to a list, which ``explain`` reads for each window: an ``Executable`` (``executables``) for
a program, an ``Interrupted`` (``interruptions``) for code that was not compiled. Why there is a
program is found at once, from the ``JaxCall`` that JAX's frames show (``calls``) and the ledger of
all programs before (``programs``): when the window is read, both are gone.

Sources: jax/_src/compiler.py, dispatch.py, traceback_util.py, interpreters/pxla.py of jax 0.10; the
names are in ``private``.
"""

from __future__ import annotations

import importlib
import threading
import time
import weakref
from functools import partial
from typing import Any, Final

from msgspec.structs import replace

from pytest_graphbreak.layers.faults import guard, or_else
from pytest_graphbreak.layers.hooks import Hook, Patch, caller, note_hook
from pytest_graphbreak.layers.imports import ImportWatch
from pytest_graphbreak.layers.jax import interruptions, private
from pytest_graphbreak.layers.jax.calls import JaxCall, find_call
from pytest_graphbreak.layers.jax.device import is_on_device
from pytest_graphbreak.layers.jax.executables import Executable, read_module
from pytest_graphbreak.layers.jax.explain import Event, MissedExecutable, SensorFault
from pytest_graphbreak.layers.jax.interruptions import Interrupted
from pytest_graphbreak.layers.jax.kept import KeptExecutables
from pytest_graphbreak.layers.jax.private import JaxName
from pytest_graphbreak.layers.jax.programs import FunctionLedger
from pytest_graphbreak.layers.jax.traces import KeptTraces
from pytest_graphbreak.layers.locks import SensorLock
from pytest_graphbreak.layers.notifier import NOTIFIER
from pytest_graphbreak.layers.private_names import MissingName
from pytest_graphbreak.text.errors import error_words


class _Local(threading.local):
    """The state of one thread."""

    def __init__(self) -> None:
        self.is_xla_asked: list[bool] = []
        """For each program that is being compiled, the innermost last, whether JAX has asked XLA
        yet. It does not where its persistent cache has the program."""
        self.is_reading = False
        """Whether we are reading what is compiled: that may call a comparison of the user's, which
        may compile, too."""
        self.is_aot = False
        """Whether the innermost program is compiled ahead of its calls."""
        self.unreported = 0
        """How many programs have gone through ``_around_compile`` and are not in JAX's own count
        yet: it reports each one after that."""
        self.last_raised: weakref.ref[BaseException] | None = None
        """The exception that was noted last."""


class JaxSensors:
    """The sensors of this process. ``events`` only grows while a window is open.

    Each window calls ``acquire`` and ``release``. The hooks go in with the first, or when JAX is
    imported later, and come out with the last.
    """

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.errors: list[str] = []
        self.ledger = FunctionLedger()
        """What was compiled so far, by function: why it is compiled again."""
        self.kept = KeptExecutables()
        self.traces = KeptTraces()
        """With ``kept``, what stays between isolated tests; ``observer`` clears it."""
        self.attached = False
        self._lock = SensorLock()
        self._local = _Local()
        self._windows = 0
        self._patches: list[Patch] = []
        self._imports = ImportWatch(["jax"], self._attach)
        self._event = ""
        """The name under which JAX counts what it compiled (``private.EVENT``):
        ``/jax/core/compile/backend_compile_duration``."""

    def acquire(self) -> None:
        """Open a window. JAX is not imported by this, but waited for if need be."""
        with self._lock:
            self._windows += 1
            if self._windows == 1:
                self.events = []
                self.errors = []
                self._local = _Local()  # an exception may have ended something half-way
                if not private.is_loaded():
                    self._imports.attach()
        if private.is_loaded() and not self.attached:
            # Another thread may be importing it: wait outside of the lock, which that thread needs.
            importlib.import_module("jax")
            self._attach()

    def release(self) -> None:
        with self._lock:
            self._windows -= 1
            if not self._windows:
                self._detach()

    def _attach(self) -> None:
        """Put the hooks in. A name that is missing is an error of each window, as is a hook."""
        with self._lock:
            if self.attached or not self._windows:
                return
            self.attached = True
            self._imports.detach()
            for name in private.NAMES:
                self._check(name)
            self.errors += [_error_words(fault) for fault in private.check_frames()]
            hooks = {
                private.COMPILE: self._around_compile,
                private.BACKEND: self._around_backend,
                private.DURATION: note_hook(
                    self._note_duration, partial(self.sensor_failed, "programs")
                ),
                private.EXCEPTION: note_hook(
                    self._note_exception, partial(self.sensor_failed, "exceptions")
                ),
            }
            for name, hook in hooks.items():
                self._patch(name, hook)

    def _check(self, name: JaxName) -> None:
        try:
            event = private.value(name)
            if name is private.EVENT:
                self._event = event
        except MissingName as fault:
            self.errors.append(_error_words(str(fault)))

    def _patch(self, name: JaxName, hook: Hook) -> None:
        with guard(partial(self._cannot_patch, name)):
            self._patches.append(Patch(*private.find(name), hook))

    def _cannot_patch(self, name: JaxName, fault: Exception) -> None:
        if not isinstance(fault, MissingName):  # the check reports that
            self.errors.append(_error_words(f"{name.path}: {error_words(fault)}"))

    def _detach(self) -> None:
        self._imports.detach()
        for patch in reversed(self._patches):
            patch.remove()
        self._patches.clear()
        self.attached = False
        self.ledger.clear()

    def sensor_failed(self, what: str, fault: BaseException) -> None:
        self.events.append(SensorFault(f"jax: the sensor for {what} failed: {error_words(fault)}"))

    # Code that is not compiled: it is seen as an exception that leaves a call of jit.

    def _note_exception(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Handle ``_is_under_reraiser(e)``, for an exception that leaves a function of JAX."""
        error, frame, noted = args[0], caller(), self._local.last_raised
        # In nested calls of jit it leaves one after the other.
        is_noted = noted is not None and noted() is error
        if is_noted or not interruptions.is_jit_boundary(frame):
            return
        if why := interruptions.stop_reason(error):
            self._local.last_raised = weakref.ref(error)
            self.events.append(Interrupted(why, interruptions.stop_stack(error, frame)))
            NOTIFIER.listener.on_event()

    # One program for each call of compile_or_get_cached.

    def _around_compile(self, original: Hook, *args: Any, **kwargs: Any) -> Any:
        """Handle ``compile_or_get_cached(backend, computation, devices, ...)``."""
        __tracebackhide__ = True
        local, listener = self._local, NOTIFIER.listener
        if local.is_reading:  # a comparison that we caused: it is no graph of the user's
            local.unreported += 1
            return original(*args, **kwargs)
        program = self._begin_program(args, kwargs)
        depth = len(local.is_xla_asked)
        try:
            local.is_xla_asked.append(False)
            local.is_aot = program.cause == "aot"
            listener.on_begin()
            began = time.perf_counter()
            executable = original(*args, **kwargs)
            program.seconds = time.perf_counter() - began
            program.loaded = not local.is_xla_asked[-1]
            self.events.append(program)
            return executable
        except Exception as error:
            with guard(partial(self.sensor_failed, "programs")):
                self.events.append(
                    Interrupted(interruptions.refusal(program.name, error), program.stack)
                )
            raise
        finally:
            del local.is_xla_asked[depth:]  # to this depth: an inner one may not have ended
            local.unreported += 1
            listener.on_end()

    def _begin_program(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Executable:
        """Return what is known of a program before it is compiled; less where reading it fails."""
        program = Executable("")
        try:
            self._local.is_reading = True
            with guard(partial(self.sensor_failed, "programs")):
                self._read_program(program, args, kwargs)
        finally:
            self._local.is_reading = False
        return program

    def _around_backend(self, original: Hook, *args: Any, **kwargs: Any) -> Any:
        """Handle ``backend_compile_and_load(...)``: XLA compiles, or has compiled the same."""
        __tracebackhide__ = True
        if self._local.is_xla_asked:
            self._local.is_xla_asked[-1] = True
        if self._local.is_aot:  # its text and its costs may be read, with the source lines
            return original(*args, **kwargs)
        return self.kept.executable(original, args, kwargs)

    def _note_duration(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Handle ``record_event_duration_secs(event, duration, ...)``, of all kinds of events."""
        if args and args[0] == self._event:
            if self._local.unreported:
                self._local.unreported -= 1
            else:
                self.events.append(MissedExecutable(str(kwargs.get("fun_name", ""))))

    def _read_program(
        self, program: Executable, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> None:
        """Fill in what is known of a program, and first where it runs: that decides whether it
        counts. What follows may fail, and then only words are missing."""
        values = dict(zip(private.COMPILE.parameters, args, strict=False)) | kwargs
        backend, module = values["backend"], values["computation"]
        devices = sorted(int(device.id) for device in values["devices"].flatten())
        platform = program.platform = str(backend.platform)
        program.devices = tuple(devices)
        # The backend is open already, since something is compiled for it: this opens none.
        program.default_platform = str(private.value(private.BRIDGE)().platform)
        program.contents = read_module(module)
        call = find_call(caller())
        program.stack = call.stack
        call.key = replace(
            call.key,
            devices=tuple(f"{platform}:{number}" for number in devices),
            settings=private.settings(),
        )
        program.name = or_else("", _name, call, module)
        program.cause, program.reason = or_else(
            ("jit", ""), self._cause, program.name, call, is_on_device(program)
        )
        program.defined = or_else(None, lambda: call.defined)

    def _cause(self, name: str, call: JaxCall, on_device: bool) -> tuple[str, str]:
        """Return the cause of a program and its reason, and enter it in the ledger.

        ::

            aot         f.lower(x).compile()
            transfer    jax.device_put(x, device)
            eager       jnp.sin(x), outside of jit
            other       no call is known
            retrace     a call of jit, of a function that was compiled before; the reason says why
            backward    a backward pass for the first time
            jit         any other call of jit
        """
        if call.aot:
            return "aot", ""
        if call.moves:
            return "transfer", ""
        if call.of_jax:
            return "eager", self.ledger.note_eager(name, call, on_device=on_device)
        if call.fun is None and not call.source:
            return "other", ""
        if reason := self.ledger.note(call, on_device=on_device):
            return "retrace", reason
        return ("backward" if call.kind == "backward" else "jit"), ""


LONGEST: Final = 200
"""The longest name of a program, in characters."""


def _name(call: JaxCall, module: Any) -> str:
    """Return ``f`` for the module ``jit_f``."""
    if call.kind == "pmap":
        return str(getattr(call.fun, "__name__", "pmap"))[:LONGEST]
    name = str(module.operation.attributes["sym_name"]).strip('"')[:LONGEST]
    kind, _, function = name.partition("_")
    return function if kind in ("jit", "pmap") and function else name


def _error_words(fault: str) -> str:
    return f"the jax layer cannot be observed: {fault}"


SENSORS: Final = JaxSensors()
"""The sensors of this process: all observers of JAX share them."""
