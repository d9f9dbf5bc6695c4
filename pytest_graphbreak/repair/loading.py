"""Writes scripts that reproduce a break: how they come by the model and the inputs of a call.

A script runs the program, uncompiled, until it calls what it compiles: all is loaded then, as the
program does it. The module is taken from it by its path (``cut``), or what is called is restored
from a saved file.
"""

from __future__ import annotations

import os
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from msgspec import Struct

from pytest_graphbreak.model.record import Break, Frame
from pytest_graphbreak.repair.target import Target
from pytest_graphbreak.text import files

Answer = dict[str, Any]

WHOLE: Final = "the whole program"
_PRINTS: Final = "torch._logging.set_logs(graph_breaks=True)"
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


class SavedInputs(Struct, frozen=True):
    """The arguments of a call: in a file, and ``inline`` as source if all of them are small.

    ``needs`` are the names of ``__main__`` that the file refers to.
    """

    file: str
    inline: str | None = None
    needs: list[str] = []


class ModulePath(Struct, frozen=True):
    """The way to a module from what the program compiles with its call ``number``.

    ``expression`` is Python that begins with ``full_model``, ``what`` says it in words.
    """

    expression: str
    what: str
    number: int = 0
    inputs: SavedInputs | None = None


class CutFunction(Struct, frozen=True):
    """A function that was taken out of a running program, or ``why`` it could not be.

    ``module`` is the name of its module, empty for the program itself; ``method`` is the method of
    the ``torch.nn.Module`` that is its first argument, if it is one; ``grad`` is whether gradients
    were computed.
    """

    module: str = ""
    method: str = ""
    grad: bool = False
    path: ModulePath | None = None
    inputs: SavedInputs | None = None
    why: str = ""


class Writer(Struct, frozen=True):
    """Writes scripts for a target; ``device`` and ``options`` are those of the original's compile.

    ``out`` is the directory for the scripts.
    """

    target: Target
    device: str
    options: Answer
    as_test: bool
    out: Path = Path("repros")

    def by_path(
        self,
        item: Break,
        frame: Frame,
        cut: CutFunction,
        path: ModulePath,
        inputs: SavedInputs,
        data: str,
    ) -> str:
        """Return a script that takes the module out of the model as the program loads it.

        ``data`` is the file of the inputs, if they are not in the script.
        """
        body = ["full_model, _ = load_the_original_full_model()"]
        body.append(f"model = {path.expression}")
        body += self._call(inputs.inline, _callee("model", cut.method), data, cut.grad)
        what = f"{frame.function}, {path.what}"
        return self._script(item, what, body, self._loader(path.number))

    def saved(
        self, item: Break, frame: Frame, cut: CutFunction, inputs: SavedInputs, data: str
    ) -> str:
        """Return a script that calls the function with inline arguments or those in ``data``."""
        first, _, inner = frame.function.partition(".")
        what, imports = frame.function, [f"from {cut.module} import {first}"]
        names = [f'sys.modules["__main__"].{name} = program["{name}"]' for name in inputs.needs]
        module = inputs.inline is None and bool(cut.method)
        if module:
            what, imports = _callee("model", cut.method), []
        elif not cut.module:
            what, imports = f'program["{first}"]{inner and "."}{inner}', []
        loads = bool(names) or (not cut.module and not module)
        body = ["_, program = load_the_original_full_model()"] if loads else []
        body += [*names, *self._call(inputs.inline, what, data, cut.grad, module=module)]
        loader = self._loader(0) if loads else ""
        return self._script(item, frame.function, body, loader, imports)

    def whole(self, item: Break) -> str:
        """Return a script that runs the program as it is."""
        program, path = self.program()
        lines = ['program = types.ModuleType("__main__")', f"path = program.__file__ = {path}"]
        body = [*lines, *textwrap.dedent(program).splitlines()]
        return self._script(item, WHOLE, body)

    def _loader(self, number: int) -> str:
        """Return the function that loads what the program compiles with its first calls."""
        run, path = self.program()
        return _LOAD.format(number=number, path=path, run=run).strip("\n")

    def program(self) -> tuple[str, str]:
        """Return the lines that run the program, and the expression of its path."""
        program, test = self.target.path, self.target.test
        home = path_source(program.parent, self.out)
        if test:
            root = path_source(Path(), self.out)
            run = _TEST.format(root=root, test=f"::{test}")
        else:
            run = _SCRIPT.format(arguments=list(self.target.arguments), home=home)
        return run, path_source(program, self.out)

    def _call(
        self, call: str | None, what: str, data: str, grad: bool, *, module: bool = False
    ) -> Iterator[str]:
        """Yield the lines that make the inputs, the ``module`` among them, and make the call."""
        if call is None:
            yield f'saved = torch.load(Path(__file__).with_name("{data}"), weights_only=False)'
            call = '*saved["args"], **saved["kwargs"]'
            if module:
                yield 'model, *inputs = saved["args"]'
                call = '*inputs, **saved["kwargs"]'
        elif ".to(device)" in call:
            yield "device = torch_xla.device()"
        yield from self._run("compiled", what, call, grad)

    def _script(
        self,
        item: Break,
        what: str,
        body: list[str],
        loader: str = "",
        imports: Sequence[str] = (),
    ) -> str:
        """Return a script with its imports in order.

        What is imported may be beside the program; other modules are found as the program runs.
        """
        home = path_source(self.target.path.parent, self.out)
        inserts = [f"sys.path.insert(0, {home})"] if imports and not loader else []
        text = "\n".join([*body, loader, *inserts])
        lines = [f"import {name}" for name in _STANDARD if f"{name}." in text]
        lines += ["from pathlib import Path"] if "Path(" in text else []
        lines = [*lines, "", *inserts, *self._imports("pytest." in text), *imports, "", ""]
        lines += [loader, "", ""] if loader else []
        set_up = ['xr.set_device_type("TT")'] if self.device == "TT" else []
        set_up.append("torch.manual_seed(0)")
        main = ["def main():", *indent([*set_up, *body]), *self._end("main()")]
        return "\n".join([*self._header(item, what), "", *lines, *main, ""])

    def _run(self, compiled: str, what: str, call: str, grad: bool) -> Iterator[str]:
        """Yield the lines that compile, run, and wait for the device."""
        options = "".join(
            f", {key}={literal(value)}"
            for key, value in self.options.items()
            if value is not None and key in ("backend", "dynamic", "mode")
        )
        if "backend" in self.options and self.options["backend"] is None:
            options += ', backend="eager"'
        yield f"{compiled} = torch.compile({what}{options})"
        yield f"with torch.set_grad_enabled({grad}):"
        yield f"    result = {compiled}({call})"
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

    def _header(self, item: Break, what: str) -> list[str]:
        name = f"{item.id}  " if item.id else ""
        lines = [
            f"{files.HEADER}repro {self.target.shown}`: {what}.",
            f"{name}{item.reason}",
            f"{item.where.file}:{item.where.line} in {item.where.function}",
            f"    {item.where.code}",
            "Under pytest it fails as long as the break is there."
            if self.as_test
            else "Run it to see the break: torch prints it.",
        ]
        return [f"# {' '.join(line.split()) if line[0] != ' ' else line}" for line in lines]


_STANDARD: Final = ("contextlib", "inspect", "sys", "types")


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


def _callee(module: str, method: str) -> str:
    return module if method in ("", "forward") else f"{module}.{method}"


def indent(lines: Iterable[str]) -> list[str]:
    """Indent lines for a function body. None of these texts has a string of several lines."""
    return [f"    {line}" if line else line for text in lines for line in text.splitlines() or [""]]


def literal(value: object) -> str:
    """Return a plain value as source, with text in the quotes that formatters prefer."""
    quotable = isinstance(value, str) and value.isprintable() and not set(value) & set('"\\')
    return f'"{value}"' if quotable else repr(value)
