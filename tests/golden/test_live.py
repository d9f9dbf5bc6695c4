"""The recorded reports are what the compilers of this environment do."""

from __future__ import annotations

import importlib.metadata
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.golden import record
from tests.golden.replay import Plain
from tests.golden.situation import DATA, of_compiler

pytestmark = pytest.mark.jax

ROOT = Path(__file__).parents[2]
_HASH = re.compile(r'(?<="hash": ")[0-9a-f]{32}(?=")')
JUDGED = ("verdict", "failed_by", "outcome", "baseline", "budget", "message", "ungated", "written")
"""Keys of a test that the replay works out anew."""


def seen(path: Path) -> list[Any]:
    """What the observers saw of each test of a report.

    The hash of an xla graph contains the description of the processor (``hash_comp_env`` of
    torch_xla's pjrt_computation_client.cpp): only which hashes are equal is compared.
    """
    text = path.read_text()
    for number, name in enumerate(dict.fromkeys(_HASH.findall(text))):
        text = text.replace(name, f"hash {number}")
    tests: list[Plain] = json.loads(text)["tests"]
    judged = {*JUDGED, "block", "changes", "unseen", "foreign", "cap"}
    return [{key: test[key] for key in test if key not in judged} for test in tests]


@pytest.mark.parametrize("step", [16, pytest.param(1, marks=pytest.mark.nightly)])
def test_a_real_run_sees_what_was_recorded(step: int, tmp_path: Path) -> None:
    found = of_compiler(compiler := record.compiler())[::step]
    recorded = json.loads((found[0].folder / "after.json").read_text())["environment"][compiler]
    if importlib.metadata.version(compiler) != recorded:
        pytest.skip(f"recorded with {compiler} {recorded}")
    names = [one.name for one in found]
    command = [sys.executable, "-m", "tests.golden", "record", *names, "--out", str(tmp_path)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    for one in found:
        for name in ("before.json", "after.json") if one.is_compared else ("after.json",):
            now, before = seen(tmp_path / one.name / name), seen(one.folder / name)
            assert now == before, f"{one.name}/{name}"
        if one.shown:
            shown, kept = ((top / one.name / record.SHOWN).read_text() for top in (tmp_path, DATA))
            assert shown == kept, f"{one.name}/{record.SHOWN}"
