"""The patched source: where the patches go, and that everything else stays."""

from __future__ import annotations

import importlib
import inspect
import sys
import types
from pathlib import Path

import pytest

from pytest_graphbreak.model.record import Frame
from pytest_graphbreak.repair.build import BuildError, Site, build
from pytest_graphbreak.repair.patch import Preamble, Rewrite, SourcePatch
from pytest_graphbreak.repair.remedies import enable
from pytest_graphbreak.repair.remedies.where import CHANGE

pytestmark = pytest.mark.once

PATCH = SourcePatch("a switch", (Preamble("torch._dynamo.config.capture_scalar_outputs = True"),))
DISABLE = "torch.compiler.disable"
SWITCH = "    torch._dynamo.config.capture_scalar_outputs = True"


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


def test_a_library_that_has_changed_since_is_not_patched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The patch has the lines that change, not the function; it holds for the source it was for."""
    library = tmp_path / "changed_library.py"
    source = "".join(f"    x = x + {number}\n" for number in range(40))
    head = 'import torch\n\n\ndef compute(x):\n    print("said")\n\n'
    library.write_text(f"{head}{source}    return x\n")
    where = Frame("changed_library.py", "compute", 5, 'print("said")')
    patch = SourcePatch("quiet", (Rewrite(enable.only_eager, where),))
    text = build("", "a.py", [patch], {"changed_library.py": Site(library, "changed_library")})
    assert "+    if not torch.compiler.is_compiling():" in text
    assert "x + 5" not in text
    library.write_text(library.read_text().replace("x + 39", "x + 38"))
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(RuntimeError, match="changed_library: compute has changed since"):
        exec(compile(text, "a.py", "exec"), types.ModuleType("__main__").__dict__)


def test_a_function_of_another_module_gets_a_new_body(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    library = tmp_path / "their_library.py"
    source = (
        "import functools\nimport torch\n\n"
        "class Base:\n    def forward(self, x):\n        return x\n\n"
        "class Model(Base):\n    @functools.lru_cache\n    def forward(self, x, plus=1):\n"
        '        print("said")\n        return super().forward(x) + plus\n'
    )
    library.write_text(source)
    monkeypatch.syspath_prepend(str(tmp_path))
    where = Frame("their_library.py", "Model.forward", 11, 'print("said")')
    patch = SourcePatch("quiet", (Rewrite(enable.only_eager, where),))
    text = build("", "a.py", [patch], {"their_library.py": Site(library, "their_library")})
    exec(compile(text, "a.py", "exec"), types.ModuleType("__main__").__dict__)
    import their_library  # type: ignore[import-not-found]

    assert their_library.Model().forward(2) == 3
    code = their_library.Model.forward.__wrapped__.__code__
    assert "is_compiling" in code.co_names
    assert library.read_text() == source


def test_lines_that_call_torch_are_not_put_where_it_is_not_imported(tmp_path: Path) -> None:
    library = tmp_path / "plain_library.py"
    library.write_text('def f(x):\n    print("said")\n    return x\n')
    where = Frame(library.name, "f", 2, 'print("said")')
    patch = SourcePatch("quiet", (Rewrite(enable.only_eager, where),))
    sites = {library.name: Site(library, "plain_library")}
    with pytest.raises(BuildError, match="plain_library does not import torch"):
        build("", "a.py", [patch], sites)
    library.write_text(f"import torch\n\n\n{library.read_text()}")
    assert "plain_library" in build("", "a.py", [patch], sites)


@pytest.mark.parametrize(("kind", "given"), [("staticmethod", "x"), ("classmethod", "cls, x")])
def test_a_static_or_class_method_of_another_module_stays_one_when_it_is_decorated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, given: str
) -> None:
    name = f"library_of_a_{kind}"
    library = tmp_path / f"{name}.py"
    library.write_text(f"class Model:\n    @{kind}\n    def f({given}):\n        return x + 1\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    where = Frame(library.name, "Model.f", 4, "return x + 1")
    patch = SourcePatch("out", (Rewrite(enable.disable, where, decorator=DISABLE),), leaves=True)
    text = build("", "a.py", [patch], {library.name: Site(library, name)})
    exec(compile(text, "a.py", "exec"), types.ModuleType("__main__").__dict__)
    module = importlib.import_module(name)
    assert module.Model().f(2) == module.Model.f(2) == 3
    assert getattr(module.Model.f, "__func__", module.Model.f)._torchdynamo_disable


PROPERTIES = {
    "property": "@property",
    "cached": "@functools.cached_property",
    "ours": "@Ours",
    "wrapped": "@property\n    @functools.lru_cache",
}


def library_with_a_property(folder: Path, name: str) -> Path:
    library = folder / f"library_of_{name}.py"
    setter = "\n    @twice.setter\n    def twice(self, value):\n        self.size = value // 2\n"
    library.write_text(
        "import functools\nimport torch\n\n\nclass Ours(property):\n    pass\n\n\n"
        f"class Model:\n    size = 2\n\n    {PROPERTIES[name]}\n    def twice(self):\n"
        '        print("said")\n        return self.size * 2\n'
        f"{setter if name != 'cached' else ''}"
    )
    return library


@pytest.mark.parametrize("name", sorted(PROPERTIES))
def test_a_property_of_another_module_gets_a_new_body(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    library = library_with_a_property(tmp_path, name)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, library.stem, raising=False)
    where = Frame(library.name, "Model.twice", 13, 'print("said")')
    patch = SourcePatch("out", (Rewrite(enable.only_eager, where),))
    text = build("", "a.py", [patch], {library.name: Site(library, library.stem)})
    exec(compile(text, "a.py", "exec"), types.ModuleType("__main__").__dict__)
    model = importlib.import_module(library.stem).Model
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
def test_a_property_of_another_module_is_not_decorated(tmp_path: Path, name: str) -> None:
    library = library_with_a_property(tmp_path, name)
    where = Frame(library.name, "Model.twice", 13, 'print("said")')
    patch = SourcePatch("out", (Rewrite(enable.disable, where, decorator=DISABLE),))
    with pytest.raises(BuildError, match=r"Model\.twice is a property of another module"):
        build("", "a.py", [patch], {library.name: Site(library, library.stem)})
