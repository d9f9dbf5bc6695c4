"""The patched source: where the patches go, and that everything else stays."""

from __future__ import annotations

import importlib
import inspect
import types
from pathlib import Path

import pytest

from pytest_graphbreak.model.record import Frame
from pytest_graphbreak.repair.build import BuildError, Site, build
from pytest_graphbreak.repair.patch import Change, Preamble, Rewrite, SourcePatch
from pytest_graphbreak.repair.remedies import enable
from pytest_graphbreak.repair.remedies.where import CHANGE

pytestmark = pytest.mark.once

PATCH = SourcePatch("a switch", (Preamble("torch._dynamo.config.capture_scalar_outputs = True"),))
DISABLE = "torch.compiler.disable"
SAID = 'print("said")'
SWITCH = "    torch._dynamo.config.capture_scalar_outputs = True"


class Library:
    """A module of somebody else, and the program in which a line of it is patched."""

    def __init__(self, folder: Path, name: str, source: str) -> None:
        self.path = folder / f"{name}.py"
        self.path.write_text(source)

    def patched(
        self, function: str, code: str, change: Change = enable.only_eager, *, helper: bool = False
    ) -> str:
        """Return the program. Raises ``BuildError``."""
        line = [line.strip() for line in self.path.read_text().splitlines()].index(code) + 1
        where = Frame(self.path.name, function, line, code)
        decorator = DISABLE if change is enable.disable else ""
        patch = SourcePatch(
            "a patch", (Rewrite(change, where, decorator=decorator, helper=helper),)
        )
        return build("", "a.py", [patch], {self.path.name: Site(self.path, self.path.stem)})


def run(program: str) -> None:
    exec(compile(program, "a.py", "exec"), types.ModuleType("__main__").__dict__)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.syspath_prepend(str(tmp_path))
    return tmp_path


def test_patches_go_behind_the_first_import_of_torch() -> None:
    source = '#!/usr/bin/python\n"""Doc."""\nfrom __future__ import annotations\nimport os\n'
    source += "os.environ['A'] = '1'\nimport torch\nx = 1  # kept\n"
    text = build(source, "a.py", [PATCH], {}, "Written.\nBy us.")
    lines = text.splitlines()
    assert lines[:4] == ["#!/usr/bin/python", "# Written.", "# By us.", '"""Doc."""']
    assert lines.index("import torch") < lines.index(SWITCH)
    assert lines.index(SWITCH) < lines.index("x = 1  # kept")
    compile(text, "a.py", "exec")


def test_a_switch_that_two_patches_need_is_there_once() -> None:
    text = build("x = 1\n", "a.py", [PATCH, PATCH], {})
    assert text.count("capture_scalar_outputs") == 1
    assert text.startswith("import torch\n")


def test_without_patches_the_source_is_as_it_was() -> None:
    source = "import torch\n\nx = 1\n"
    assert build(source, "a.py", [], {}) == source


def test_a_rewrite_that_fits_nothing_is_an_error() -> None:
    patch = SourcePatch("no", (Rewrite(CHANGE, Frame("a.py", "f", 1, "if x:")),))
    with pytest.raises(BuildError):
        build("def f(x):\n    return x\n", "a.py", [patch], {})


def test_a_library_that_has_changed_since_is_not_patched(folder: Path) -> None:
    """The patch has the lines that change, not the function; it holds for the source it was for."""
    lines = "".join(f"    x = x + {number}\n" for number in range(40))
    head = f"import torch\n\n\ndef compute(x):\n    {SAID}\n\n"
    library = Library(folder, "changed_library", f"{head}{lines}    return x\n")
    program = library.patched("compute", SAID)
    assert "+    if not torch.compiler.is_compiling():" in program
    assert "x + 5" not in program
    library.path.write_text(library.path.read_text().replace("x + 39", "x + 38"))
    with pytest.raises(RuntimeError, match="changed_library: compute has changed since"):
        run(program)


def test_a_function_of_another_module_gets_a_new_body(folder: Path) -> None:
    source = (
        "import functools\nimport torch\n\n"
        "class Base:\n    def forward(self, x):\n        return x\n\n"
        "class Model(Base):\n    @functools.lru_cache\n    def forward(self, x, plus=1):\n"
        f"        {SAID}\n        return super().forward(x) + plus\n"
    )
    library = Library(folder, "their_library", source)
    run(library.patched("Model.forward", SAID))
    model = importlib.import_module("their_library").Model
    assert model().forward(2) == 3
    assert "is_compiling" in model.forward.__wrapped__.__code__.co_names
    assert library.path.read_text() == source


def test_lines_that_call_torch_are_not_put_where_it_is_not_imported(folder: Path) -> None:
    source = f"def f(x):\n    {SAID}\n    return x\n"
    with pytest.raises(BuildError, match="plain_library does not import torch"):
        Library(folder, "plain_library", source).patched("f", SAID)
    library = Library(folder, "plain_library", f"import torch\n\n\n{source}")
    assert "plain_library" in library.patched("f", SAID)


@pytest.mark.parametrize(("kind", "given"), [("staticmethod", "x"), ("classmethod", "cls, x")])
def test_a_static_or_class_method_of_another_module_stays_one_when_it_is_decorated(
    folder: Path, kind: str, given: str
) -> None:
    source = f"class Model:\n    @{kind}\n    def f({given}):\n        return x + 1\n"
    library = Library(folder, f"library_of_a_{kind}", source)
    run(library.patched("Model.f", "return x + 1", enable.disable))
    model = importlib.import_module(library.path.stem).Model
    assert model().f(2) == model.f(2) == 3
    assert getattr(model.f, "__func__", model.f)._torchdynamo_disable


PROPERTIES = {
    "property": "@property",
    "cached": "@functools.cached_property",
    "ours": "@Ours",
    "wrapped": "@property\n    @functools.lru_cache",
}


def library_with_a_property(folder: Path, name: str) -> Library:
    setter = "\n    @twice.setter\n    def twice(self, value):\n        self.size = value // 2\n"
    return Library(
        folder,
        f"library_of_{name}",
        "import functools\nimport torch\n\n\nclass Ours(property):\n    pass\n\n\n"
        f"class Model:\n    size = 2\n\n    {PROPERTIES[name]}\n    def twice(self):\n"
        f"        {SAID}\n        return self.size * 2\n"
        f"{setter if name != 'cached' else ''}",
    )


@pytest.mark.parametrize("name", sorted(PROPERTIES))
def test_a_property_of_another_module_gets_a_new_body(folder: Path, name: str) -> None:
    library = library_with_a_property(folder, name)
    run(library.patched("Model.twice", SAID))
    model = importlib.import_module(library.path.stem).Model
    one, other = model(), model()
    other.size = 5
    assert (one.twice, other.twice) == (4, 10)
    held = vars(model)["twice"]
    getter = held.func if name == "cached" else held.fget
    assert "is_compiling" in inspect.unwrap(getter).__code__.co_names
    if name != "cached":
        one.twice = 8
        assert one.size == 4


@pytest.mark.parametrize("name", ["cached", "property", "wrapped"])
def test_a_property_of_another_module_is_not_decorated(folder: Path, name: str) -> None:
    library = library_with_a_property(folder, name)
    with pytest.raises(BuildError, match=r"Model\.twice is a property of another module"):
        library.patched("Model.twice", SAID, enable.disable)


def test_a_library_cannot_call_a_function_of_the_script(folder: Path) -> None:
    library = Library(folder, "calling_library", f"import torch\n\n\ndef f():\n    {SAID}\n")
    with pytest.raises(BuildError, match=r"of the script, and is in calling_library\.py"):
        library.patched("f", SAID, helper=True)
