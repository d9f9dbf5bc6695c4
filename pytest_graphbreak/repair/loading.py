"""How a program loads a model, as text: the statements, and the way from their name to a module.

``cut`` finds the names, while the program runs; ``slicing`` finds what they
need, in its source.
"""

from __future__ import annotations

import ast
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pytest_graphbreak.repair.slicing import NotPlain, Slice, Spot
from pytest_graphbreak.repair.target import Target

_PATH = "from pathlib import Path"
_FUTURE = "from __future__ import"


@dataclass(frozen=True, slots=True)
class Loading:
    """``top`` stands at the top of a script, ``body`` in its ``main()``.

    ``module`` is the expression that gives the module, after them; ``root`` is the
    name of the whole model's class, ``path`` where the module is in it. A function
    of the program has no ``root``: then ``module`` is its name. ``names`` are all
    names that the text uses.
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
        """For people: ``1 of Sequential by its path``."""
        if not self.root:
            return f"{self.module} as the program defines it"
        return f"{self.path} of {self.root} by its path" if self.path else f"{self.root} as loaded"


def load(
    source: str, target: Target, found: Sequence[Mapping[str, Any]], names: Iterable[str]
) -> Loading:
    """The first of the ``found`` names that plain statements make, and definitions of ``names``.

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


def heading(
    own: Iterable[str], top: Sequence[str], homes: Mapping[str, str], *, as_test: bool
) -> list[str]:
    """The beginning of a script: ``own`` imports and ``top``, each once, in their order.

    ``homes`` has the directories of modules that have to be on the path, as source.
    They are put there where the script is what runs, or is a test: not on import.
    """
    future = [text for text in top if text.startswith(_FUTURE)]
    rest = [text for text in top if not text.startswith(_FUTURE)]
    lines = [*future, *([""] if future else [])]
    # What a module of the program's own imports may be in any of the places.
    folders = list(dict.fromkeys(homes.values())) if _imported(rest) & set(homes) else []
    missing = [line for line in own if line not in rest]
    if folders:
        first = ["import sys"]
        if any("Path(" in folder for folder in folders):
            first.append(_PATH)
        missing = [*first, *(line for line in missing if line not in first)]
        rest = [text for text in rest if text not in first]
    standard = {_PATH, "import sys"}
    lines += sorted((line for line in missing if line in standard), reverse=True)
    lines += [line for line in missing if line not in standard]
    insert = [f"sys.path.insert(0, {folder})" for folder in reversed(folders)]
    if insert and not as_test:
        insert = ["", 'if __name__ == "__main__":', *(f"    {line}" for line in insert)]
    lines += insert
    last = "import" if as_test or not insert else "other"
    for text in rest:
        kind = _kind(text)
        gap = 2 if kind == "definition" else int(kind != last) + int(last == "definition")
        lines += [*[""] * gap, text]
        last = kind
    return lines


def _kind(text: str) -> str:
    if text.startswith(("import ", "from ")):
        return "import"
    return "definition" if text.startswith(("def ", "class ", "@", "async def ")) else "other"


def _imported(texts: Iterable[str]) -> set[str]:
    """The first names of all modules that the texts import."""
    names: set[str] = set()
    for node in ast.walk(ast.parse("\n".join(texts))):
        if isinstance(node, ast.Import):
            names |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names.add(node.module.partition(".")[0])
    return names


def located(path: Path, script: Path) -> str:
    """Source for a path in a file of the directory ``script``.

    From the file itself where both are in this checkout, so that it holds on every machine.
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
    """The package that a test file is in, as pytest names it."""
    parts: list[str] = []
    for folder in path.resolve().parents:
        if not (folder / "__init__.py").is_file():
            break
        parts.insert(0, folder.name)
    return ".".join(parts)
