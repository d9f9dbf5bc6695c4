"""The page of messages, from where they are raised: ``python -m tests.messages`` writes it anew.

It reads the source, and finds a message where it is written as text: ``raise Kind("...")``, a call
that makes such an error, or ``errors.append("...")``. What is put together elsewhere and comes in a
variable is not found. What is filled in is in capitals, by the name that the source has for it.
"""

from __future__ import annotations

import ast
import re
import textwrap
from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path
from typing import Final, NamedTuple

ROOT: Final = Path(__file__).parents[1]
PACKAGE: Final = ROOT / "pytest_graphbreak"
PAGE: Final = ROOT / "docs" / "reference" / "messages.md"
MARK: Final = "<!-- below here: python -m tests.messages -->\n"


class Section(NamedTuple):
    """Messages of the modules that match ``files``, of errors of these ``kinds``."""

    title: str
    meaning: str
    files: tuple[str, ...]
    kinds: tuple[str, ...]


RAISED: Final = ("CheckoutError", "DeviceError", "GitError", "ReportError", "UserError")
SECTIONS: Final = (
    Section(
        "Options and ini keys",
        "pytest stops before any test runs, with exit code 4; a command exits with 2. Correct the "
        "option or the key that the message begins with: [options](options.md).",
        ("config/[cgis]*", "suite/gate.py", "layers/jax/device.py"),
        (*RAISED, "UsageError", "ValueError"),
    ),
    Section(
        "Devices and profiles",
        "As above. `graphbreak doctor` says which devices there are: "
        "[options](options.md#options-and-ini-keys).",
        ("config/device.py",),
        RAISED,
    ),
    Section(
        "Markers and blocks",
        "A `max_graphs` marker or a `graph_budget` block says what cannot be: the test that has it "
        "fails. Correct the call: [markers](options.md#markers).",
        ("judging/cap.py", "measuring/graph_budget.py"),
        ("CapError", "ValueError"),
    ),
    Section(
        "Baseline files",
        "The message begins with file and line. No test of that file is judged; correct the file, "
        "or take it from git again: [the format](baseline-file.md).",
        ("baseline/*",),
        ("BaselineError", "_error", "_not_written"),
    ),
    Section(
        "Reports and archives",
        "`accept`, `check`, `compare`, `report` and `explain` exit with 2, and write nothing. Name "
        "files that `--graph-budget-report` wrote: [what a reader takes](report.md).",
        ("artifacts/*", "model/json.py", "model/forms.py", "cli/accept.py", "cli/report.py"),
        (*RAISED, "BadValue", "OSError", "ValueError"),
    ),
    Section(
        "Commands that run a program",
        "The command exits with 2. The program is to run as it is, without the command: try that "
        "first. [Commands](commands.md).",
        ("cli/*", "repair/target.py", "layers/children/runner.py"),
        (*RAISED, "ServerError", "TargetError"),
    ),
    Section(
        "Logs",
        "`analyze` exits with 2, and analyses no log: [analyze a log](../how-to/analyze-a-log.md).",
        ("text/lines.py", "cli/analyze.py", "logs/*"),
        (*RAISED, "OSError", "ValueError", "FileNotFoundError"),
    ),
    Section(
        "The verdict `error`: `could not see`",
        "The gate could not count, so the test is red and nothing can be accepted. Usually a name "
        "of torch, torch_xla or JAX is gone in a new version: `graphbreak doctor` names it, and "
        "[versions](versions.md) has what works.",
        ("layers/*", "measuring/*", "suite/*"),
        ("MissingName", "SettingsError", "Busy", "errors.append", "Record"),
    ),
)
"""What was in an earlier section is not said again."""


def text_of(node: ast.expr) -> str | None:
    """Return a text as the reader sees it, with what is filled in as a name in capitals."""
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else None
    if isinstance(node, ast.JoinedStr):
        parts = (
            str(part.value) if isinstance(part, ast.Constant) else _name(part)
            for part in node.values
        )
        return re.sub(r"(?<=[a-z])(?=[A-Z]{2})", " ", "".join(parts))
    if isinstance(node, ast.BinOp):
        sides = [text_of(side) for side in (node.left, node.right)]
        return " ".join((side or "...").strip() for side in sides) if any(sides) else None
    return None


def _name(part: ast.expr) -> str:
    """Return the last name of an expression in capitals, as ``PATH`` of ``item.path!r``."""
    names = re.findall(r"[A-Za-z_]{2,}", ast.unparse(part).split(" or ")[0].split("[")[0])
    return names[-1].strip("_").upper() if names else "..."


def _written(tree: ast.AST) -> Iterator[tuple[str, str]]:
    """Yield the kind and the text of each message that is written in a module, in its order."""
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    for call in sorted(calls, key=lambda call: call.lineno):
        name = ast.unparse(call.func)
        kind = "errors.append" if name.endswith("errors.append") else name.rpartition(".")[2]
        for keyword in call.keywords:
            if keyword.arg == "errors" and isinstance(keyword.value, ast.Tuple):
                yield from (("Record", text_of(text) or "") for text in keyword.value.elts)
        texts = [text for argument in call.args if (text := text_of(argument)) is not None]
        yield kind, "; ".join(texts)


def messages(section: Section) -> list[str]:
    """Return the messages of a section: each once, of at least three words."""
    found: dict[str, None] = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        if not any(fnmatch(path.relative_to(PACKAGE).as_posix(), name) for name in section.files):
            continue
        for kind, text in _written(ast.parse(path.read_text("utf-8"))):
            if kind in section.kinds and len(text.split()) > 2:
                found[" ".join(text.split())] = None
    return [*found]


def rendered() -> str:
    """Return the generated part of the page."""
    parts, before = [], set[str]()
    for section in SECTIONS:
        listed = [text for text in messages(section) if text not in before]
        before |= {*listed}
        rows = "".join(f"- ``{text}``\n" for text in sorted(listed, key=str.lower))
        meaning = textwrap.fill(section.meaning, 120, break_long_words=False)
        parts.append(f"\n## {section.title}\n\n{meaning}\n\n{rows}")
    return "".join(parts)


def main() -> None:
    """Write the page anew, below its first words."""
    top = PAGE.read_text("utf-8").partition(MARK)[0]
    PAGE.write_text(top + MARK + rendered(), encoding="utf-8")


if __name__ == "__main__":
    main()
