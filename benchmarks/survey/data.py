"""The files of results: where they are, how they are merged, and how their words are written."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Final

HERE: Final = Path(__file__).parent
ROOT: Final = HERE.parents[1]
RESULTS: Final = HERE / "results.jsonl"
REPAIRS: Final = HERE / "repairs.jsonl"
DRAWN: Final = HERE / "drawn.jsonl"
"""The repairs of classes that were drawn, each held to eleven inputs of a kind."""
RECORDED: Final = HERE / "recorded.jsonl"
"""The recorded repairs of other classes, made again without the search, held to the same inputs."""
INDEPENDENT: Final = HERE / "independent.json"
LISTED: Final = HERE / "listed.json"
"""How many classes there are, of each part: what is not in the results was not run."""
Plain = dict[str, Any]


def read(path: Path) -> list[Plain]:
    if not path.exists():
        return []
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def merged(results: Iterable[Plain]) -> list[Plain]:
    """One result for each class, by name."""
    best: dict[str, Plain] = {}
    for each in results:
        known = best.get(each["model"])
        if known is None or known["status"] != "ran" or each["status"] == "ran":
            best[each["model"]] = each
    return [best[name] for name in sorted(best)]


def written(results: Sequence[Plain]) -> str:
    """The lines of the file: nothing that is empty is written."""
    return "".join(json.dumps(_slim(each), ensure_ascii=False) + "\n" for each in results)


def _slim(each: Plain) -> Plain:
    return {
        key: _slim(value) if isinstance(value, dict) else value
        for key, value in each.items()
        if value not in ([], {}, "", None)
    }


def share(part: int, whole: int) -> str:
    return f"{part} ({part / whole:.1%})" if whole else "0"


def cell(text: str) -> str:
    return text.replace("|", "\\|")


def as_code(text: str) -> str:
    return f"`{cell(text)}`" if text else ""


def short_file(file: str) -> str:
    return file.removeprefix("transformers/").removeprefix("models/")


def joined(words: Iterable[str]) -> str:
    return ", ".join(words)
