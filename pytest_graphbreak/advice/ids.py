"""Writes ``ids.json``, the reason of each id of the installed torch: ``python -m`` this module."""

from __future__ import annotations

import json
from pathlib import Path

from pytest_graphbreak.advice.registry import TABLE, installed_registry


def main() -> None:
    registry = installed_registry()
    version = (registry.version or "").partition("+")[0]
    table = {"torch": version, "ids": {id: words[0].reason for id, words in registry.ids.items()}}
    text = json.dumps(table, indent=1, ensure_ascii=True)
    Path(__file__).with_name(TABLE).write_text(f"{text}\n", encoding="utf-8")


if __name__ == "__main__":
    main()
