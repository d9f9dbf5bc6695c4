"""Small wheels, in place of an index."""

from __future__ import annotations

import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path


def wheel(
    folder: Path,
    name: str,
    version: str,
    files: Mapping[str, str] | None = None,
    *,
    requires: Sequence[str] = (),
) -> Path:
    """Write a pure wheel, which installs in no time."""
    info = f"{name}-{version}.dist-info"
    lines = ["Metadata-Version: 2.1", f"Name: {name}", f"Version: {version}"]
    reported = dict(files if files is not None else {f"{name}.py": f"version = {version!r}\n"})
    reported[f"{info}/METADATA"] = "\n".join(
        [*lines, *(f"Requires-Dist: {one}" for one in requires), ""]
    )
    reported[f"{info}/WHEEL"] = "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    reported[f"{info}/RECORD"] = "".join(f"{one},,\n" for one in (*reported, f"{info}/RECORD"))
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}-{version}-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for one, text in reported.items():
            archive.writestr(one, text)
    return path
