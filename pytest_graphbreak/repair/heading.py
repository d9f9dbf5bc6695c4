"""Writes the beginning of a script: environment, imports, search path, and definitions in order."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final

_PATH: Final = "from pathlib import Path"
_FUTURE: Final = "from __future__ import"


def heading(
    own: Iterable[str],
    top: Sequence[str],
    homes: Mapping[str, str],
    *,
    as_test: bool,
    environment: Sequence[str] = (),
) -> list[str]:
    """Return the beginning of a script: ``own`` imports and ``top``, each once and in order.

    ``environment`` are statements that come before all of these, since libraries read the
    environment when they are imported. ``homes`` has the directories of modules that have to be on
    the path, as source. They are added if the script is run, or is a test, but not on import.
    """
    future = [text for text in top if text.startswith(_FUTURE)]
    rest = [text for text in top if not text.startswith(_FUTURE) and not _is(text, environment)]
    lines = [*future, *([""] if future else []), *environment]
    # The imports of one of the program's modules may be in any of these directories.
    own = list(dict.fromkeys(line for line in own if line not in environment))
    folders = list(dict.fromkeys(homes.values())) if _imported([*own, *rest]) & set(homes) else []
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
    return [*lines, *insert, *_spaced(rest, "import" if as_test or not insert else "other")]


def _is(text: str, statements: Collection[str]) -> bool:
    """Return whether a text is one of these statements, however it is written."""
    return bool(statements) and ast.unparse(ast.parse(text)) in statements


def _spaced(texts: Iterable[str], last: str) -> list[str]:
    """Return the texts with empty lines between those of another kind; ``last`` came before."""
    lines: list[str] = []
    for text in texts:
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
    """Return the top-level names of all modules that the texts import."""
    names: set[str] = set()
    for node in ast.walk(ast.parse("\n".join(texts))):
        if isinstance(node, ast.Import):
            names |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names.add(node.module.partition(".")[0])
    return names
