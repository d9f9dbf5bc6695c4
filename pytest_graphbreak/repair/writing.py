"""Writes scripts that reproduce a break: how they come by the model and the inputs of a call.

A script runs the program, uncompiled, until it calls what it compiles: all is loaded then, as the
program does it. What breaks is taken from there (``cut``): a module by its path, or a function by
its name.
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
_PRINTS: Final = "torch._logging.set_logs(graph_breaks=True)"
"""The line by which torch prints the breaks of a script that is no test."""
# What loads the program for a function of it: ``run`` is _SCRIPT or _TEST, ``number`` that of the
# torch.compile whose callable is returned.
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

The owner is the module that ``Module.compile`` was called on: it passes its bound ``_call_impl``
to ``torch.compile`` and keeps the result in ``_compiled_call_impl``. Both that and the ``forward``
which raises are removed, so that the script calls the model as the program made it.
"""
# The lines that run a whole script, and a test.
_SCRIPT: Final = """\
            sys.argv = [path, *{arguments}]
            sys.path.insert(0, {home})
            sys.modules["__main__"] = program
            exec(compile(Path(path).read_bytes(), path, "exec"), vars(program))"""
_TEST: Final = """\
            sys.path.append({root})
            options = ["-q", "-p", "no:cacheprovider", "-o", "addopts="]
            pytest.main([*options, path + {test!r}])
            of_test = (one for one in sys.modules.values() if getattr(one, "__file__", 0) == path)
            vars(program).update(vars(next(of_test, program)))"""


class CutOrder(TargetOrder, frozen=True, kw_only=True):
    """The order to save the arguments of functions (file and name) in a folder (``cut``)."""

    kind: str = "cut"
    functions: Sequence[tuple[str, str]]
    folder: str


class CutFunction(Struct, frozen=True):
    """A way to call a function of a running program.

    ``expression`` is Python for it, of ``full_model`` or ``program``, once the program has called
    what it compiles with its call ``number``; ``what`` says it in words. Its arguments are in
    ``file``, and ``inline`` as source if all of them are small; ``grad`` is whether gradients were
    computed. ``by_path`` is one of ``full_model``: what the program compiles, or a module in it, is
    the model of the script. ``why`` says that there is none.
    """

    expression: str = ""
    what: str = ""
    number: int = 0
    file: str = ""
    inline: str | None = None
    grad: bool = False
    by_path: bool = False
    why: str = ""


class Writer(Struct, frozen=True):
    """Writes scripts for a target; ``device`` and ``options`` are those of the original's compile.

    ``out`` is the directory for the scripts.
    """

    target: Target
    device: str
    options: Mapping[str, Any]
    as_test: bool
    out: Path = Path("repros")

    def cut(self, item: Break, frame: Frame, cut: CutFunction, data: str) -> str:
        """Return a script that calls a function of the program as it loads it.

        ``data`` is the file of the inputs, if they are not in the script.
        """
        names = "full_model, _" if cut.by_path else "_, program"
        body = [f"{names} = load_the_original_full_model()"]
        call, function = cut.inline, cut.expression
        if cut.by_path:
            body.append(f"model = {cut.expression}")
            function = "model"
        if call is None:
            body.append(f'file = Path(__file__).with_name("{data}")')
            body.append("saved = torch.load(file, weights_only=False)")
            call = '*saved["args"], **saved["kwargs"]'
        elif ".to(device)" in call:
            body.append("device = torch_xla.device()")
        body += self._run(function, call, cut.grad)
        run, path = self.program()
        loader = _LOAD.format(number=cut.number, path=path, run=run).strip("\n")
        what = f"{frame.function}, {cut.what}" if cut.by_path else frame.function
        return self._script(item, what, body, [loader, "", ""])

    def whole(self, item: Break) -> str:
        """Return a script that runs the program as it is."""
        return self._script(item, WHOLE, [*self.namespace(), *self.lines()], [])

    def namespace(self) -> list[str]:
        """Return the lines that make the module of the whole program."""
        _, path = self.program()
        return ['program = types.ModuleType("__main__")', f"path = program.__file__ = {path}"]

    def lines(self) -> list[str]:
        """Return the lines that run the whole program in it."""
        return textwrap.dedent(self.program()[0]).splitlines()

    def program(self) -> tuple[str, str]:
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
        """Return a script with its imports in order."""
        text = "\n".join([*body, *loader])
        lines = [f"import {name}" for name in _STANDARD if f"{name}." in text]
        lines += ["from pathlib import Path"] if "Path(" in text else []
        lines = [*lines, "", *self._imports("pytest." in text), "", "", *loader]
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

    def _run(self, what: str, call: str, grad: bool) -> Iterator[str]:
        """Yield the lines that compile, run, and wait for the device."""
        options = "".join(
            f", {key}={literal(value)}"
            for key, value in self.options.items()
            if value is not None and key in ("backend", "dynamic", "mode")
        )
        if "backend" in self.options and self.options["backend"] is None:
            options += ', backend="eager"'
        yield f"compiled = torch.compile({what}{options})"
        yield f"with torch.set_grad_enabled({grad}):"
        yield f"    result = compiled({call})"
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
            yield f"    {_PRINTS}"
            yield f"    {call}"

    def _imports(self, tests: bool) -> list[str]:
        lines = ["import pytest"] if self.as_test or tests else []
        lines.append("import torch")
        if self.device:
            lines.append("import torch_xla")
        if self.device == "TT":
            lines.append("import torch_xla.runtime as xr")
        return lines

    def header(self, what: str, reason: str, where: Frame, end: str) -> list[str]:
        """Return the comment at the head of a script."""
        lines = [
            f"{files.HEADER}repro {self.target.name}`: {what}.",
            reason,
            f"{where.file}:{where.line} in {where.function}",
            f"    {where.code}",
            end,
        ]
        return [f"# {' '.join(line.split()) if line[0] != ' ' else line}" for line in lines]


_STANDARD: Final = ("contextlib", "inspect", "sys", "types")
"""Modules of Python that a script imports if it uses them."""


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
