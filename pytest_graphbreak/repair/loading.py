"""Writes how a program loads a model: the statements, and the path from a name to a module.

``cut`` finds the names while the program runs; ``slicing`` finds what they need in its source.
"""

from __future__ import annotations

import ast
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from pytest_graphbreak.model.record import Break, Frame
from pytest_graphbreak.repair.heading import heading
from pytest_graphbreak.repair.settings import Setup, settings
from pytest_graphbreak.repair.slicing import NotPlain, Slice, Spot
from pytest_graphbreak.repair.target import Target
from pytest_graphbreak.text import files


@dataclass(frozen=True, slots=True)
class Loading:
    """The source that loads a module: ``top`` for the top of a script, ``body`` for its ``main()``.

    ``module`` is the expression for the module after these lines; ``root`` is the name of the whole
    model's class, and ``path`` the location of the module in it. A function of the program has no
    ``root``, and ``module`` is its name. ``names`` are all names that the text uses.
    """

    top: tuple[str, ...]
    body: tuple[str, ...]
    module: str
    root: str
    path: str

    @property
    def names(self) -> set[str]:
        tree = ast.parse("\n".join((*self.top, *self.body)))
        return {one.id for one in ast.walk(tree) if isinstance(one, ast.Name)}

    @property
    def what(self) -> str:
        """A description for people: ``1 of Sequential by its path``."""
        if not self.root:
            return f"{self.module} as the program defines it"
        return f"{self.path} of {self.root} by its path" if self.path else f"{self.root} as loaded"


def load(
    source: str, target: Target, found: Sequence[Mapping[str, Any]], names: Iterable[str]
) -> Loading:
    """Return the first of the ``found`` names that plain statements make, with ``names`` defined.

    Raises ``NotPlain``, which says why the best of them is not plain.
    """
    if not found:
        raise NotPlain(f"no name in {target.path.name} holds it")
    first: NotPlain | None = None
    for one in found:
        try:
            return _load(source, target, one, names)
        except NotPlain as why:
            first = first or why
    assert first is not None
    raise first


def _load(source: str, target: Target, one: Mapping[str, Any], names: Iterable[str]) -> Loading:
    spot = Spot(*one["spot"]) if one["spot"] is not None else None
    cut = Slice(
        source,
        [one["name"], *names],
        spot=spot,
        line=one["line"],
        script=not target.test,
        package=package(target.path) if target.test else "",
    )
    top, body = cut.parts()
    for text in top:
        if "parse_args" in text or "sys.argv" in text:
            raise NotPlain("its definitions use the command line")
    if any("parse_args" in text or "sys.argv" in text for text in body):
        body.insert(0, f"sys.argv = {[replace(target, test='').shown, *target.arguments]!r}")
        top.append("import sys")
    module = one["expression"]
    if one["path"]:
        module += f'.get_submodule("{one["path"]}")'
    return Loading(tuple(top), tuple(body), module, one["root"], one["path"])


def located(path: Path, script: Path) -> str:
    """Return source for a path, for use in a file in the directory ``script``.

    If both are in this checkout, the path is relative to the file, so that it holds on every
    machine.
    """
    path, script, here = path.resolve(), script.resolve(), Path.cwd().resolve()
    if not (path.is_relative_to(here) and script.is_relative_to(here)):
        return repr(str(path))
    common = Path(os.path.commonpath((path, script)))
    up = len(script.relative_to(common).parts)
    steps = "".join(f" / {_text(part)}" for part in path.relative_to(common).parts)
    return f"str(Path(__file__).resolve().parents[{up}]{steps})"


def _text(part: str) -> str:
    return f'"{part}"' if part.isprintable() and not set(part) & set('"\\') else repr(part)


def package(path: Path) -> str:
    """Return the package that a test file is in, as pytest names it."""
    parts: list[str] = []
    for folder in path.resolve().parents:
        if not (folder / "__init__.py").is_file():
            break
        parts.insert(0, folder.name)
    return ".".join(parts)


Answer = dict[str, Any]

_WHOLE: Final = "the whole program"
_PRINTS: Final = "torch._logging.set_logs(graph_breaks=True)"

MOST_WIDTH: Final = 60
"""Arguments that are longer get a line each."""


@dataclass(frozen=True, slots=True)
class Writer:
    """Writes scripts for a target; ``device`` and ``options`` are those of the original's compile.

    ``out`` is the directory for the scripts, ``homes`` that of each module that Python does not
    find by itself.
    """

    target: Target
    source: str
    device: str
    options: Answer
    as_test: bool
    out: Path = Path("repros")
    homes: Mapping[str, str] = field(default_factory=dict)

    def by_path(
        self, item: Break, frame: Frame, cut: Answer, loading: Loading, data: str, state: str = ""
    ) -> str:
        """Return a script that loads the model as the original did and takes the module out of it.

        ``data`` is the file of the inputs, if they are not in the script; ``state`` that of the
        module's weights, if they differ from those after loading.
        """
        rest = cut["path"]
        taken = loading.names | {frame.function.partition(".")[0]}
        module, saved, device, compiled, main = (
            _free(name, taken) for name in ("module", "saved", "device", "compiled", "main")
        )
        imports = ["import torch"]
        what = _callee(module, cut["method"])
        if not loading.root:
            what = loading.module
        elif not cut["method"]:
            what = frame.function
            if not self.owns(cut["module"]):
                imports.append(f"from {cut['module']} import {what}")
        given = settings(self.source)
        body = self._started(loading, given)
        if loading.root:
            body.append(f"{module} = {loading.module}")
        if state:
            imports.append("from pathlib import Path")
            body += [
                "# Its weights at the break, which are not those that it is loaded with.",
                f"{module}.load_state_dict(torch.load({_beside(state)}))",
                f"{module}.train({rest['training']})",
            ]
        more, lines, call = _inputs(rest, data, saved, device)
        imports += more
        body += lines
        if loading.root and not cut["method"]:
            call = f"{module}, {call}" if call else module
        body += self._run(compiled, what, call, cut["grad"])
        header = self._header(item, f"{frame.function}, {loading.what}")
        return self._script(header, given, imports, list(loading.top), body, main)

    def _script(
        self,
        header: list[str],
        given: Setup,
        imports: list[str],
        top: list[str],
        body: list[str],
        main: str = "main",
    ) -> str:
        own = [*imports, *self._imports(), *given.imports]
        homes = {name: located(Path(home), self.out) for name, home in self.homes.items()}
        environment = given.environment
        start = heading(own, top, homes, as_test=self.as_test, environment=environment)
        lines = [*header, "", *start, "", "", f"def {main}():"]
        return "\n".join([*lines, *_indented(body), *self._end(f"{main}()"), ""])

    def _started(self, loading: Loading, given: Setup) -> list[str]:
        """Return the lines that load the model, with its device and a seed."""
        known = {ast.unparse(ast.parse(line)) for line in loading.body}
        own = [line for line in given.lines if line not in known]
        return self._set([*own, *loading.body], loading.top)

    def _set(self, body: list[str], top: Sequence[str] = ()) -> list[str]:
        """Return lines with the device and a seed first, where the program sets none itself."""
        if self.device == "TT" and "set_device_type" not in "\n".join((*top, *body)):
            body.insert(0, 'xr.set_device_type("TT")')
        if "manual_seed" not in "\n".join(body):
            body.insert(1 if body and body[0].startswith("xr.") else 0, "torch.manual_seed(0)")
        return body

    def saved(self, item: Break, frame: Frame, cut: Answer, data: str) -> str:
        """Return a script that calls the function with inline arguments or those in file ``data``.

        Raises ``NotPlain`` if what it needs is not made by plain statements.
        """
        first = frame.function.partition(".")[0]
        top = [f"from {cut['module']} import {first}"]
        if cut["module"] == "__main__":
            top, rest = Slice(self.source, [first, *cut["needs"]]).parts()
            top += rest
        imports = [] if cut["inline"] is not None else ["from pathlib import Path"]
        given = settings(self.source)
        body = [*self._set([*given.lines]), *self._saved(frame, cut, data)]
        header = self._header(item, frame.function)
        return self._script(header, given, [*imports, "import torch"], top, body)

    def whole(self, item: Break) -> str:
        """Return a script that runs the program as it is."""
        lines = [*self._header(item, _WHOLE), ""]
        path, home = (located(one, self.out) for one in (self.target.path, self.target.path.parent))
        first = ["from pathlib import Path"] if "Path(" in path else []
        body = [f"path = {path}"]
        if self.target.test:
            lines += [*first, "", "import pytest", "", "", "def main():"]
            body += [
                'options = ["-q", "-p", "no:cacheprovider", "-o", "addopts="]',
                f"pytest.main([*options, path + {f'::{self.target.test}'!r}])",
            ]
        else:
            first += ["", "import pytest"] if self.as_test else []
            lines += ["import runpy", "import sys", *first, "", "", "def main():"]
            body += [
                f"sys.argv = [{', '.join(['path', *map(repr, self.target.arguments)])}]",
                f"sys.path.insert(0, {home})",
                'runpy.run_path(path, run_name="__main__")',
            ]
        return "\n".join([*lines, *_indented(body), *self._end("main()", prints=False), ""])

    def owns(self, module: str) -> bool:
        """Return whether a module's name is that of the target's own file."""
        around = package(self.target.path)
        stem = self.target.path.stem
        return module in ("__main__", stem, f"{around}.{stem}")

    def _saved(self, frame: Frame, cut: Answer, data: str) -> Iterator[str]:
        call, what = cut["inline"], frame.function
        if call is not None and ".to(device)" in call:
            yield "device = torch_xla.device()"
        if call is None:
            yield f"saved = torch.load({_beside(data)}, weights_only=False)"
            call = '*saved["args"], **saved["kwargs"]'
            if cut["method"]:
                yield 'module, *inputs = saved["args"]'
                what = _callee("module", cut["method"])
                call = '*inputs, **saved["kwargs"]'
        yield from self._run("compiled", what, call, cut["grad"])

    def _run(self, compiled: str, what: str, call: str, grad: bool) -> Iterator[str]:
        """Yield the lines that compile, run, and wait for the device."""
        given = "".join(
            f", {key}={_literal(value)}"
            for key, value in self.options.items()
            if value is not None and key in ("backend", "dynamic", "mode")
        )
        if "backend" in self.options and self.options["backend"] is None:
            given += ', backend="eager"'
        yield f"{compiled} = torch.compile({what}{given})"
        yield f"with torch.set_grad_enabled({grad}):"
        if len(call) > MOST_WIDTH:
            yield f"    result = {compiled}("
            yield from (f"        {one}," for one in _split(call))
            yield "    )"
        else:
            yield f"    result = {compiled}({call})"
        if self.device:
            yield "torch_xla.sync()"
        yield "return result"

    def _end(self, call: str, *, prints: bool = True) -> Iterator[str]:
        """Yield the lines that call the function; with ``prints``, torch prints the break."""
        yield from ("", "")
        if self.as_test:
            yield "@pytest.mark.max_graphs(1, breaks=0)"
            yield "def test_no_break():"
            yield f"    {call}"
        else:
            yield 'if __name__ == "__main__":'
            if prints:
                yield f"    {_PRINTS}"
            yield f"    {call}"

    def _imports(self) -> list[str]:
        lines = ["import pytest"] if self.as_test else []
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
            else "Run it with TORCH_LOGS=graph_breaks in the environment to see the break."
            if what == _WHOLE
            else "Run it to see the break: torch prints it.",
        ]
        return [f"# {' '.join(line.split()) if line[0] != ' ' else line}" for line in lines]


def _split(call: str) -> Iterator[str]:
    """Yield the arguments of a call, one by one."""
    parsed = ast.parse(f"f({call})", mode="eval").body
    assert isinstance(parsed, ast.Call)
    yield from map(ast.unparse, parsed.args)
    for one in parsed.keywords:
        yield f"{one.arg}={ast.unparse(one.value)}" if one.arg else f"**{ast.unparse(one.value)}"


def _callee(module: str, method: str) -> str:
    return module if method == "forward" else f"{module}.{method}"


def _inputs(rest: Answer, data: str, saved: str, device: str) -> tuple[list[str], list[str], str]:
    """Return the imports and lines that make the inputs, and the arguments of the call."""
    call: str | None = rest["inline"]
    needed = (call is not None and ".to(device)" in call) or rest["move"]
    lines = [f"{device} = torch_xla.device()"] if needed else []
    if call is not None:
        return [], lines, call.replace(".to(device)", f".to({device})")
    imports = ["from pathlib import Path"]
    lines.append(f"{saved} = torch.load({_beside(data)}, weights_only=False)")
    if rest["move"]:
        imports.append("from torch.utils._pytree import tree_map_only")
        move = f"lambda one: one.to({device}).detach().requires_grad_(one.requires_grad)"
        lines += [f"{saved} = tree_map_only(", f"    torch.Tensor, {move}, {saved}", ")"]
    return imports, lines, f'*{saved}["args"], **{saved}["kwargs"]'


def _beside(file: str) -> str:
    return f'Path(__file__).with_name("{file}")'


def _free(name: str, taken: set[str]) -> str:
    """Return a name that the program does not use."""
    while name in taken:
        name += "_"
    return name


def _indented(lines: Iterable[str]) -> list[str]:
    """Indent lines for a function body. None of these texts has a string of several lines."""
    return [f"    {line}" if line else line for text in lines for line in text.splitlines() or [""]]


def _literal(value: object) -> str:
    """Return a plain value as source, with text in the quotes that formatters prefer."""
    plain = isinstance(value, str) and value.isprintable() and not set(value) & set('"\\')
    return f'"{value}"' if plain else repr(value)
