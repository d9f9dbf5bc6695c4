"""The checks of a release find what they are there to find."""

from __future__ import annotations

import io
import tarfile
import zipfile
from pathlib import Path

import pytest

from tests import distribution
from tests.distribution import disagreements, problems

pytestmark = pytest.mark.pure

METADATA = "Metadata-Version: 2.4\nName: x\n{urls}\n\n[docs]({link})\n"


def built(folder: Path, *, link: str, urls: str, without: str = "") -> tuple[Path, Path]:
    wheel, sdist = folder / "x-1-py3-none-any.whl", folder / "x-1.tar.gz"
    with zipfile.ZipFile(wheel, "w") as file:
        file.writestr("x-1.dist-info/METADATA", METADATA.format(link=link, urls=urls))
        for name in distribution.IN_WHEEL:
            if name != without:
                file.writestr(f"pytest_graphbreak/{name}x", "")
    with tarfile.open(sdist, "w:gz") as archive:
        for name in (*distribution.IN_SDIST, *distribution.IN_SDIST_TOO):
            if name != without:
                archive.addfile(tarfile.TarInfo(f"x-1/{name}"), io.BytesIO())
    return wheel, sdist


def test_what_is_missing_is_named(tmp_path: Path) -> None:
    pair = built(tmp_path, link="docs/index.md", urls="Summary: x", without="py.typed")
    found = "\n".join(problems(*pair))
    assert "no py.typed" in found
    assert "'docs/index.md'" in found
    assert "no project.urls" in found
    assert "x-1.dist-info/METADATA is not ours" in found


def test_a_release_has_one_version() -> None:
    project = 'name = "x"\nversion = "1.2.0"\n'
    assert not [*disagreements("v1.2.0", project, "# Changelog\n\n## 1.2.0, 2026-01-31\n")]
    assert [*disagreements("v1.2.1", project, "## 1.2.0, 2026-01-31\n")] == [
        "the tag is v1.2.1, the version in pyproject.toml 1.2.0"
    ]
    assert [*disagreements("v1.2.0", project, "## 1.2.0, unreleased\n")] == [
        "CHANGELOG.md begins with '1.2.0, unreleased', wanted '1.2.0, YYYY-MM-DD'"
    ]
