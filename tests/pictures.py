"""Makes the pictures of the documentation: ``tox run -e pictures``, where Chromium is installed.

The files and commands are the README's own, so that the pictures show what it shows: its red
test as a terminal has it (SVG), and the page of the same report (PNG).
"""

from __future__ import annotations

import io
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from rich.console import Console
from rich.text import Text

from tests.docs.tools import ROOT, blocks, insert
from tests.report.browser import Browser, find

PICTURES = ROOT / "docs/pictures"
WIDTH = 96


def main() -> None:
    browser = find()
    if browser is None:
        sys.exit("Chromium is needed for the page: install it (Debian: chromium)")
    PICTURES.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        here = Path(folder)
        output = red(here)
        terminal(output, PICTURES / "red.svg")
        command(here, "-m", "pytest_graphbreak", "report", "graphs.json", "--html", "page.html")
        with Browser(browser) as page:
            page.looks(width=1100, height=860)
            page.open(here / "page.html")
            page.run("document.querySelectorAll('details').forEach((row) => { row.open = true })")
            page.settle()
            page.screenshot(PICTURES / "page.png")


def red(here: Path) -> str:
    """The README's project, recorded while it is whole and run when it is broken."""
    (here / "pytest.ini").write_text("[pytest]\n")
    output = ""
    for block in blocks(ROOT / "README.md"):
        if block.word == "file":
            path = here / block.what
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(block.text)
        elif block.word == "insert":
            insert(block, here)
        elif block.word == "run":
            option = "--graph-budget-record" if not output else "--graph-budget"
            arguments = (option, "--color=yes", "--graph-budget-report=graphs.json")
            output = command(here, "-m", "pytest", *arguments)
    return output


def command(here: Path, *arguments: str) -> str:
    environment = {key: os.environ[key] for key in os.environ if key not in ("CI", "NO_COLOR")}
    # By the name that the README types: what pytest prints to be typed again begins with it.
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}"
    done = subprocess.run(
        ["python", *arguments],
        cwd=here,
        env={**environment, "PATH": path, "COLUMNS": str(WIDTH), "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stdout


def terminal(output: str, path: Path) -> None:
    """From the name of the failed test to the end of its text, as a terminal shows it."""
    lines = output.splitlines()
    plain = [re.sub(r"\x1b\[[0-9;]*m", "", line) for line in lines]
    first = next(number for number, line in enumerate(plain) if line.startswith("graph budget: "))
    last = next(number for number, line in enumerate(plain) if line.startswith("  accept "))
    prompt = "\x1b[2m$ \x1b[0mpython -m pytest --graph-budget"
    console = Console(record=True, width=WIDTH, file=io.StringIO())
    console.print(Text.from_ansi("\n".join([prompt, *lines[first - 1 : last + 1]])))
    svg = console.export_svg(title="")
    # The font that rich names is loaded from elsewhere; the reader's own will do.
    path.write_text(re.sub(r"@font-face \{.*?\}\s*", "", svg, flags=re.S))


if __name__ == "__main__":
    main()
