"""A key of baselines is one field of ``Values``: two more are added to a copy of the package."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import pytest_graphbreak
from pytest_graphbreak.baseline import form
from pytest_graphbreak.model.budget import KEYS, Values
from tests.conftest import ENVIRON

pytestmark = pytest.mark.pure

PACKAGE = Path(pytest_graphbreak.__file__).parent
REFERENCE = Path(__file__).parents[2] / "docs" / "reference" / "baseline-file.md"

FIELDS = """
    loads: Annotated[Counts, OPTIONAL, key("counts", "How many graphs were loaded.")] = {}
    leaks: Annotated[
        tuple[BaselinePlace, ...], OPTIONAL, key("places", "The places that leak.")
    ] = ()

"""
SCRIPT = """
from pathlib import Path

from pytest_graphbreak.baseline import BaselinePlace, Baselines, Measured, Values, schemas, update

HERE = Path("baselines")
LEAK = BaselinePlace("m.py::f", "leak()")
AGAIN = BaselinePlace("m.py::f", "leak()", count=2)


def write(profile, **values):
    values = Values({"dynamo": 1}, **values)
    update(HERE, [Measured("test_a.py::test", profile, {"torch": "2.9"}, values, ("dynamo",))])
    print((HERE / "test_a.yaml").read_text().partition("tests:\\n")[2], end="--\\n")


def expected(profile):
    values = Baselines(HERE).expectation("test_a.py::test", profile).values
    print(profile, values.loads, *(place.count for place in values.leaks))


write("cpu", loads={"dynamo": 2}, leaks=(LEAK,))
write("cpu", loads={"dynamo": 3}, leaks=(LEAK,))
write("cpu", loads={"dynamo": 3}, leaks=(AGAIN,))
write("tt", loads={"dynamo": 3}, leaks=(AGAIN,))
write("tt", loads={"dynamo": 4})
expected("cpu")
expected("tt")
properties = schemas.baseline()["$defs"]["Override"]["properties"]
print(*(properties[key]["description"] for key in FIELDS))
"""
WRITTEN = """\
  test:
    graphs: {dynamo: 1}
    loads: {dynamo: 2}
    leaks:
      - where: m.py::f
        code: leak()
--
  test:
    graphs: {dynamo: 1}
    loads: {dynamo: 3}
    leaks:
      - where: m.py::f
        code: leak()
--
"""
AGAIN = """\
  test:
    graphs: {dynamo: 1}
    loads: {dynamo: 3}
    leaks:
      - where: m.py::f
        code: leak()
        count: 2
"""
OVERRIDDEN = """\
    overrides:
      tt:
        loads: {dynamo: 4}
        leaks: []
--
cpu {'dynamo': 3} 2
tt {'dynamo': 4}
How many graphs were loaded. The places that leak.
"""


def test_a_new_key_is_read_merged_and_written(tmp_path: Path) -> None:
    package = tmp_path / "site" / "pytest_graphbreak"
    shutil.copytree(PACKAGE, package, ignore=shutil.ignore_patterns("__pycache__"))
    path = package / "model" / "budget.py"
    before, method, after = path.read_text("utf-8").partition("    def causes_of(")
    path.write_text(before.rstrip() + FIELDS + method + after, "utf-8")
    done = subprocess.run(
        [sys.executable, "-c", f'FIELDS = ("loads", "leaks")\n{SCRIPT}'],
        cwd=tmp_path,
        env={**ENVIRON, "PYTHONPATH": str(package.parent)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout == f"{WRITTEN}{AGAIN}--\n{AGAIN}--\n{AGAIN}{OVERRIDDEN}", done.stderr


def test_every_field_is_a_key_with_a_rule_and_a_type() -> None:
    assert tuple(KEYS) == tuple(form.VALUES) == Values.__struct_fields__


def test_the_reference_has_every_key() -> None:
    text = REFERENCE.read_text("utf-8").partition("## Keys of an entry")[2].partition("\n#")[0]
    rows = re.findall(r"^\| `([a-z]+)`", text, re.MULTILINE)
    assert [row for row in rows if row in KEYS] == [*KEYS]
