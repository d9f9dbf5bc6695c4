"""Runs at the start of each Python that a measured test starts, and waits for a compiler there.

A test's process puts this directory into PYTHONPATH and names its spool in
GRAPHBREAK_CHILDREN while it is measured, and in it the modules that are waited
for (torch). Nothing is imported here before the child itself imports one of
them; a child that never does pays for this file alone. Then ``begin`` of
``layers.children.observer`` watches it, or the spool says why it could not.
The ``sitecustomize`` that would have run without us runs after.

This file is in old and plain Python, since the child may be another interpreter.
"""

import os
import sys

VARIABLE = "GRAPHBREAK_CHILDREN"


def _wait(about: str) -> None:
    """Begin to watch when a compiler is about to run for the first time.

    The method by which Python runs a module from its source is replaced until then: a finder of
    ours would be seen in ``sys.meta_path``.
    """
    # This is JSON, read as text so that json itself need not be imported.
    waited = about.partition('"waited": [')[2].partition("]")[0]
    try:
        from importlib.machinery import SourceFileLoader as Loader

        replaced = Loader.exec_module
        is_inherited = "exec_module" not in vars(Loader)
        file = replaced.__code__.co_filename
    except Exception:  # a Python of another kind
        return
    waiting = [waited]  # empty once a compiler came

    def exec_module(self, module):  # type: ignore[no-untyped-def]
        if not waiting or '"%s"' % getattr(self, "name", "") not in waited:  # noqa: UP031
            return replaced(self, module)
        waiting.clear()
        if vars(Loader).get("exec_module") is not exec_module:  # wrapped: ours stays, and passes on
            _begin()
            return replaced(self, module)
        if is_inherited:
            del Loader.exec_module
        else:
            Loader.exec_module = replaced  # type: ignore[method-assign]
        _begin()
        return self.exec_module(module)  # Python's, or that of ``layers.imports`` by now

    # Frames of the import system are left out of tracebacks and warnings: ours belongs to it.
    exec_module.__code__ = exec_module.__code__.replace(co_filename=file)
    Loader.exec_module = exec_module  # type: ignore[method-assign]


def _begin() -> None:
    about = os.environ.get(VARIABLE)
    if not about:
        return
    try:
        from pytest_graphbreak.layers.children.observer import begin

        begin(about)
    except Exception as fault:
        _cannot(about, fault)


def _cannot(about: str, fault: Exception) -> None:
    """Leave a note for the test that this process could not be watched: a file of ``spool``."""
    try:
        import json
        import tempfile

        spool = json.loads(about)["spool"]
        if not os.path.isdir(spool):
            os.makedirs(spool, 0o700)
        node = tempfile.mkdtemp(prefix="%d-" % os.getpid(), dir=spool)  # noqa: UP031
        text = "%s in %s" % (fault, sys.executable)  # noqa: UP031
        with open(os.path.join(node, "unseen"), "w") as stream:
            stream.write(" ".join(text.split()))
    except Exception:  # a child's own work is worth more than our note
        pass


def _of_torch() -> bool:
    """Return whether this is a helper of torch's own, which compiles kernels and no graphs."""
    return any("compile_worker" in word for word in getattr(sys, "orig_argv", ())[1:4])


def _chain() -> None:
    """Run the ``sitecustomize`` that ours hides, under its own name."""
    here = os.path.dirname(os.path.abspath(__file__))
    sys.path[:] = [entry for entry in sys.path if os.path.abspath(entry or ".") != here]
    ours = sys.modules.pop("sitecustomize", None)
    try:
        import sitecustomize  # type: ignore[import-not-found]  # noqa: F401
    except ImportError as fault:
        if fault.name != "sitecustomize":
            raise
    finally:
        if ours is not None:
            # The import system looks for a module of this name when we return.
            sys.modules.setdefault("sitecustomize", ours)


if os.environ.get(VARIABLE) and not _of_torch():
    _wait(os.environ[VARIABLE])
_chain()
