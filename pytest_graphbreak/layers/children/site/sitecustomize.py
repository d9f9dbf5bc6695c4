"""Runs at the start of each Python that a measured test starts, and waits for a compiler there.

A test's process puts this directory into PYTHONPATH and names its spool in
GRAPHBREAK_CHILDREN while it is measured, and in it the modules that are waited
for (torch). Nothing is imported here before the child itself imports one of
them; a child that never does pays for this file alone.
The ``sitecustomize`` that would have run without us runs after.

This file is in old and plain Python, since the child may be another interpreter.
"""

import os
import sys

VARIABLE = "GRAPHBREAK_CHILDREN"


class _Compiler(object):  # noqa: UP004
    """A finder that begins to watch when a compiler is first looked for.

    It finds nothing itself, but the finders that are put before it by then are asked for that
    import.
    """

    def __init__(self, about: str) -> None:
        # This is JSON, read as text so that json itself need not be imported.
        self.waited = about.partition('"waited": [')[2].partition("]")[0]

    def find_spec(self, name: str, path: object = None, target: object = None):  # type: ignore[no-untyped-def]
        if not self.waited or '"%s"' % name not in self.waited:  # noqa: UP031
            return None
        self.waited = ""
        there = len(sys.meta_path)
        _begin()
        for finder in sys.meta_path[: len(sys.meta_path) - there]:
            spec = finder.find_spec(name, path, target)  # type: ignore[arg-type]
            if spec is not None:
                return spec
        return None


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
    """Leave a note for the test that this process could not be watched."""
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
    sys.meta_path.insert(0, _Compiler(os.environ[VARIABLE]))
_chain()
