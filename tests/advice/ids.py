"""``python -m tests.advice.ids`` writes the table of the reasons of the installed torch."""

from __future__ import annotations

import json
from pathlib import Path

from pytest_graphbreak.advice import registry


def main() -> None:
    installed = registry.installed_registry()
    version = (installed.version or "").partition("+")[0]
    reasons = {id: words[0].reason for id, words in installed.ids.items()}
    text = json.dumps({"torch": version, "ids": reasons}, indent=1, ensure_ascii=True)
    Path(registry.__file__).with_name(registry.TABLE).write_text(f"{text}\n", encoding="utf-8")


if __name__ == "__main__":
    main()
