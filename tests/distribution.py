"""Checks what is released: ``tox run -e dist``, and the workflow that a tag starts.

``python -m tests.distribution DIR`` looks into the wheel and the sdist of a directory;
``--tag v1.2.3`` holds a tag to the version and the changelog.
"""

from __future__ import annotations

import argparse
import re
import sys
import tarfile
import zipfile
from collections.abc import Iterator
from email import message_from_string
from pathlib import Path

ROOT = Path(__file__).parents[1]
IN_WHEEL = (
    "py.typed",
    "schemas/report.json",
    "schemas/baseline.json",
    "report/assets/",
    "advice/",
)
IN_SDIST = ("tests/conftest.py", "docs/index.md", "baselines/", "action.yml", "tox.ini")
IN_SDIST_TOO = (".github/workflows/tests.yml", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md")
LINK = re.compile(r"\]\((?!https?:|#)([^)]*)\)")


def problems(wheel: Path, sdist: Path) -> Iterator[str]:
    """What is missing from the two files, or wrong in them; nothing where they are fit."""
    with zipfile.ZipFile(wheel) as file:
        inside = file.namelist()
        (metadata,) = (name for name in inside if name.endswith(".dist-info/METADATA"))
        about = message_from_string(file.read(metadata).decode())
    for wanted in IN_WHEEL:
        if not any(name.startswith(f"pytest_graphbreak/{wanted}") for name in inside):
            yield f"{wheel.name}: no {wanted}"
    for name in inside:
        if not name.startswith(("pytest_graphbreak/", "pytest_graphbreak-")):
            yield f"{wheel.name}: {name} is not ours to install"
    for link in LINK.findall(str(about.get_payload())):
        yield f"{wheel.name}: the README links to {link!r}, which an index cannot follow"
    if not about.get_all("Project-URL"):
        yield f"{wheel.name}: no project.urls"
    with tarfile.open(sdist) as archive:
        packed = [name.partition("/")[2] for name in archive.getnames()]
    for wanted in (*IN_SDIST, *IN_SDIST_TOO):
        if not any(name.startswith(wanted) for name in packed):
            yield f"{sdist.name}: no {wanted}"


def disagreements(tag: str, pyproject: str, changelog: str) -> Iterator[str]:
    """Where a tag, the version of the project and the newest section of the changelog differ."""
    version = re.findall(r'^version = "(.+)"$', pyproject, re.M)[0]
    newest = re.findall(r"^## (.+)$", changelog, re.M)[0]
    if tag != f"v{version}":
        yield f"the tag is {tag}, the version in pyproject.toml {version}"
    if not re.fullmatch(rf"{re.escape(version)}, \d{{4}}-\d\d-\d\d", newest):
        yield f"CHANGELOG.md begins with {newest!r}, wanted '{version}, YYYY-MM-DD'"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("directory", nargs="?", type=Path)
    parser.add_argument("--tag")
    given = parser.parse_args()
    found: list[str] = []
    if given.tag:
        texts = ((ROOT / name).read_text() for name in ("pyproject.toml", "CHANGELOG.md"))
        found += disagreements(given.tag, *texts)
    if given.directory:
        (wheel,), (sdist,) = (sorted(given.directory.glob(end)) for end in ("*.whl", "*.tar.gz"))
        found += problems(wheel, sdist)
    print("\n".join(found) or "fit to be released")
    return bool(found)


if __name__ == "__main__":
    sys.exit(main())
