"""Writes scripts that reproduce a break: how they come by the model and the inputs of a call.

A script runs the program, uncompiled, until it calls what it compiles: all is loaded then, as the
program does it. What breaks is taken from there: a module by its path, or a function by its name.
That is found out in a run before, in a process of its own, by ``cut``. Its order (``CutOrder``) and
answer (``CutFunction``) stand here, since the process of the command does not import torch. Of a
module the script is, after its comment, its imports and ``_LOAD``::

    def main():
        torch.manual_seed(0)
        full_model, _ = load_the_original_full_model()
        model = full_model.get_submodule("inner")
        compiled = torch.compile(model, backend="eager")
        with torch.set_grad_enabled(False):
            result = compiled(torch.tensor([[1.0, 2.0]], dtype=torch.float32))
        return result

``Repro`` tries the functions around a break by ``Writer.cut``, and in the end the program by
``Writer.whole``. The scripts for what torch_xla cuts are ``lazy``'s, made of the same parts.
"""

from __future__ import annotations

import os
import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from msgspec import Struct

from pytest_graphbreak.model.items import Break, Frame
from pytest_graphbreak.repair.target import Target
from pytest_graphbreak.repair.trial import TargetOrder
from pytest_graphbreak.text import files

WHOLE: Final = "the whole program"
"""What a script runs that takes nothing out of it."""
_STANDARD: Final = ("contextlib", "inspect", "sys", "types")
"""Modules of Python that a script imports if it uses them."""
_LOAD: Final = '''
class Loaded(BaseException):
    """Raised when the program first calls what it compiles: all of it is loaded then."""


def load_the_original_full_model():
    """Run the program, uncompiled, until it calls what it compiles; return that and its names."""
    models = []

    def compiled(model=None, **options):
        if model is None:
            return compiled
        models.append(model)
        if len(models) <= {number}:
            return model

        def loaded(*args, **kwargs):
            raise Loaded

        if not isinstance(model, torch.nn.Module):
            return loaded
        model.forward = loaded
        return model

    original, torch.compile = torch.compile, compiled
    main, program = sys.modules["__main__"], types.ModuleType("__main__")
    program.__file__ = path = {path}
    try:
        with contextlib.suppress(Loaded):
{run}
    finally:
        torch.compile = original
        sys.modules["__main__"] = main
    owner = getattr(models[{number}], "__self__", models[{number}])
    if isinstance(owner, torch.nn.Module):
        vars(owner).pop("forward", None)
        owner._compiled_call_impl = None
    return models[{number}], vars(program)
'''
"""What loads the program in a script.

``run`` is ``_SCRIPT`` or ``_TEST``, ``path`` the expression of the program's path, and ``number``
says which ``torch.compile`` of the program is meant: what that compiles is returned.

The owner is the module that ``Module.compile`` was called on: it passes its bound ``_call_impl``
to ``torch.compile`` and keeps the result in ``_compiled_call_impl``. Both that and the ``forward``
which raises are removed, so that the script calls the model as the program made it.
"""
_SCRIPT: Final = """\
            sys.argv = [path, *{arguments}]
            sys.path.insert(0, {home})
            sys.modules["__main__"] = program
            exec(compile(Path(path).read_bytes(), path, "exec"), vars(program))"""
"""The lines that run a whole script; ``home`` is its directory."""
_TEST: Final = """\
            sys.path.append({root})
            options = ["-q", "-p", "no:cacheprovider", "-o", "addopts="]
            pytest.main([*options, path + {test!r}])
            of_test = (one for one in sys.modules.values() if getattr(one, "__file__", 0) == path)
            vars(program).update(vars(next(of_test, program)))"""
"""The lines that run a test. Its functions are in the module that pytest has imported."""


class CutOrder(TargetOrder, frozen=True, kw_only=True):
    """The order to save the arguments of functions (file and name) in a folder (``cut``)."""

    kind: str = "cut"
    functions: Sequence[tuple[str, str]]
    folder: str


class CutFunction(Struct, frozen=True):
    """How a script can call a function that the program calls; or ``why`` it cannot."""

    expression: str = ""
    """Python for the function: ``full_model.get_submodule("inner")``, ``program["helper"]``."""
    what: str = ""
    """The same in words: ``inner of Outer by its path``."""
    number: int = 0
    """Which ``torch.compile`` of the program has to have been called for that, from 0 on."""
    file: str = ""
    """The file with the arguments of its first call."""
    inline: str | None = None
    """These arguments as source, if all of them are small."""
    grad: bool = False
    """Whether gradients were computed in that call."""
    by_path: bool = False
    """Whether the expression is one of ``full_model``, what the program compiles; else it is one of
    the variables of the program or of a module."""
    why: str = ""


class Writer(Struct, frozen=True):
    """Writes scripts for a target, as text. ``Repro`` puts them in files."""

    target: Target
    device: str
    """What torch_xla computes on in the program (``Trial.device``), or ""."""
    options: Mapping[str, Any]
    """Those of the program's first ``torch.compile`` (``Trial.options``)."""
    as_test: bool
    """Whether a script is a test, which fails as long as the break is there."""
    out: Path = Path("repros")
    """The directory for the scripts, from which they name the program."""

    def cut(self, item: Break, frame: Frame, cut: CutFunction, data: str) -> str:
        """Return a script that calls a function of the program, once that has loaded it.

        ``data`` names the file of the inputs, if they are not ``CutFunction.inline``.
        """
        names = "full_model, _" if cut.by_path else "_, program"
        body = [f"{names} = load_the_original_full_model()"]
        arguments, function = cut.inline, cut.expression
        if cut.by_path:
            body.append(f"model = {cut.expression}")
            function = "model"
        if arguments is None:
            body.append(f'file = Path(__file__).with_name("{data}")')
            body.append("saved = torch.load(file, weights_only=False)")
            arguments = '*saved["args"], **saved["kwargs"]'
        elif ".to(device)" in arguments:  # as ``cut`` writes a tensor of torch_xla
            body.append("device = torch_xla.device()")
        body += self._compiled_call(function, arguments, cut.grad)
        run, path = self._program()
        loader = _LOAD.format(number=cut.number, path=path, run=run).strip("\n")
        what = f"{frame.function}, {cut.what}" if cut.by_path else frame.function
        return self._script(item, what, body, [loader, "", ""])

    def whole(self, item: Break) -> str:
        """Return a script that runs the program as it is."""
        return self._script(item, WHOLE, [*self.namespace(), *self.lines()], [])

    def namespace(self) -> list[str]:
        """Return the lines that make the module of the whole program."""
        _, path = self._program()
        return ['program = types.ModuleType("__main__")', f"path = program.__file__ = {path}"]

    def lines(self) -> list[str]:
        """Return the lines that run the whole program in it."""
        return textwrap.dedent(self._program()[0]).splitlines()

    def _program(self) -> tuple[str, str]:
        """Return the lines that run the program, and the expression of its path."""
        program, test = self.target.path, self.target.test
        if test:
            root = path_source(Path(), self.out)
            run = _TEST.format(root=root, test=f"::{test}")
        else:
            home = path_source(program.parent, self.out)
            run = _SCRIPT.format(arguments=list(self.target.arguments), home=home)
        return run, path_source(program, self.out)

    def _script(self, item: Break, what: str, body: list[str], loader: list[str]) -> str:
        """Return a script: its comment, its imports in order, ``loader``, ``main`` with a body."""
        text = "\n".join([*body, *loader])
        lines = [f"import {name}" for name in _STANDARD if f"{name}." in text]
        lines += ["from pathlib import Path"] if "Path(" in text else []
        lines = [*lines, "", *self._imports(uses_pytest="pytest." in text), "", "", *loader]
        set_up = ['xr.set_device_type("TT")'] if self.device == "TT" else []
        set_up.append("torch.manual_seed(0)")
        main = ["def main():", *indent([*set_up, *body]), *self._end("main()")]
        end = (
            "Under pytest it fails as long as the break is there."
            if self.as_test
            else "Run it to see the break: torch prints it."
        )
        name = f"{item.id}  " if item.id else ""
        head = self.header(what, f"{name}{item.reason}", item.where, end)
        return "\n".join([*head, "", *lines, *main, ""])

    def _compiled_call(self, function: str, arguments: str, grad: bool) -> Iterator[str]:
        """Yield the lines that compile a function, call it, and wait for the device."""
        options = "".join(
            f", {key}={literal(value)}"
            for key, value in self.options.items()
            if value is not None and key in ("backend", "dynamic", "mode")
        )
        # None stands for an object, a backend of the program's own. Dynamo breaks with any backend.
        if "backend" in self.options and self.options["backend"] is None:
            options += ', backend="eager"'
        yield f"compiled = torch.compile({function}{options})"
        yield f"with torch.set_grad_enabled({grad}):"
        yield f"    result = compiled({arguments})"
        if self.device:
            yield "torch_xla.sync()"
        yield "return result"

    def _end(self, call: str) -> Iterator[str]:
        """Yield the lines that call the function; outside of pytest torch prints the break."""
        yield from ("", "")
        if self.as_test:
            yield "@pytest.mark.max_graphs(1, breaks=0)"
            yield "def test_no_break():"
            yield f"    {call}"
        else:
            yield 'if __name__ == "__main__":'
            yield "    torch._logging.set_logs(graph_breaks=True)"
            yield f"    {call}"

    def _imports(self, *, uses_pytest: bool) -> list[str]:
        """Return the imports of installed packages."""
        lines = ["import pytest"] if self.as_test or uses_pytest else []
        lines.append("import torch")
        if self.device:
            lines.append("import torch_xla")
        if self.device == "TT":
            lines.append("import torch_xla.runtime as xr")
        return lines

    def header(self, what: str, reason: str, where: Frame, end: str) -> list[str]:
        """Return the comment at the head of a script, each text on a line of its own."""
        place = f"{where.file}:{where.line} in {where.function}"
        texts = (f"{files.HEADER}{self._command}: {what}.", reason, place)
        first = [f"# {' '.join(text.split())}".rstrip() for text in texts]
        return [*first, f"#     {where.code}", f"# {end}"]

    def has_written(self, path: Path) -> bool:
        """Return whether a file is a script for this target, written now or by an earlier run."""
        return files.is_ours(path, self._command)

    @property
    def _command(self) -> str:
        """What the header says after ``Written by `graphbreak``, with one space for several."""
        return " ".join(f"repro {self.target.name}`".split())


def path_source(path: Path, script: Path) -> str:
    """Return source for a path, for use in a file in the directory ``script``.

    If both are in this checkout, the path is relative to the file, so that it holds on every
    machine.
    """
    path, script, here = path.resolve(), script.resolve(), Path.cwd().resolve()
    if not (path.is_relative_to(here) and script.is_relative_to(here)):
        return repr(str(path))
    common = Path(os.path.commonpath((path, script)))
    up = len(script.relative_to(common).parts)
    steps = "".join(f" / {literal(part)}" for part in path.relative_to(common).parts)
    return f"str(Path(__file__).resolve().parents[{up}]{steps})"


def indent(lines: Iterable[str]) -> list[str]:
    """Indent lines for a function body. None of these texts has a string of several lines."""
    return [f"    {line}" if line else line for text in lines for line in text.splitlines() or [""]]


def literal(value: object) -> str:
    """Return a plain value as source, with text in the quotes that formatters prefer."""
    quotable = isinstance(value, str) and value.isprintable() and not set(value) & set('"\\')
    return f'"{value}"' if quotable else repr(value)
