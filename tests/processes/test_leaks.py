"""What a test leaves in torch's settings: put back, reported, and without effect on other tests."""

from __future__ import annotations

import importlib.util
import json
import random
from typing import Any

import pytest

from tests.conftest import Suite

LEAKING = {
    "config": ("torch._dynamo.config.capture_scalar_outputs = True",),
    "inductor": (
        "import torch._inductor.config",
        "torch._inductor.config.triton.cudagraphs = True",
    ),
    "contents": (
        "torch._dynamo.config.reorderable_logging_functions.add(print)",
        "print(torch._dynamo.config.reorderable_logging_functions)",
    ),
    "stance": ('torch.compiler.set_stance("force_eager")',),
    "default_device": ('torch.set_default_device("meta")',),
    "raises": ("torch._dynamo.config.disable = True", "assert 0"),
    "skips": ("torch._dynamo.config.automatic_dynamic_shapes = False", 'pytest.skip("x")'),
}
LEFT = {
    "config": {"torch._dynamo.config.capture_scalar_outputs": True},
    "inductor": {"torch._inductor.config.triton.cudagraphs": True},
    "contents": {"torch._dynamo.config.reorderable_logging_functions": "{builtins.print}"},
    "stance": {"stance": "force_eager"},
    "default_device": {"default_device": "meta"},
    "raises": {"torch._dynamo.config.disable": True},
    "skips": {"torch._dynamo.config.automatic_dynamic_shapes": False},
}
HAS_XLA = importlib.util.find_spec("torch_xla") is not None
if HAS_XLA:
    LEAKING |= {"skips": ("torch._dynamo.config.specialize_float = False", 'pytest.skip("x")')}
    LEFT |= {"skips": {"torch._dynamo.config.specialize_float": False}}

COUNTED = """
import pytest, torch
import torch._dynamo
if __import__("importlib.util").util.find_spec("torch_xla"):
    import torch_xla

def made(function, *args, **options):
    torch.compile(function, backend="eager", **options)(*args)

def item(x): return x * x.sum().item()
def printing(x):
    y = x + 1
    print("hello")
    return y + 1

def test_item(): made(item, torch.ones(3))                        # 2, and 1 with the config
def test_printing(): made(printing, torch.ones(3))                # a break, or a reordered print
def test_sizes():
    f = torch.compile(lambda x: x * 2, backend="eager")
    for n in (4, 5, 6): f(torch.ones(n))                          # dynamic, or not
def test_nothing(): pass
"""
GRAPHS = {
    "test_item": 2,
    "test_printing": 2,
    "test_sizes": 3 if HAS_XLA else 2,
    "test_nothing": 0,
}


def leaking() -> str:
    body = "\n    ".join
    return "".join(f"\ndef test_leaks_{name}():\n    {body(do)}\n" for name, do in LEAKING.items())


ORDER = """
import os, random

def pytest_collection_modifyitems(items):
    random.Random(os.environ["TEST_ORDER"]).shuffle(items)
"""


@pytest.mark.once
def test_every_count_in_random_orders_among_tests_that_leak(
    suite: Suite, monkeypatch: pytest.MonkeyPatch, subtests: pytest.Subtests
) -> None:
    suite.write(COUNTED + leaking())
    suite.write(ORDER, "conftest")
    for _ in range(2):  # `tox -e exact` runs all cases in twenty
        order = str(random.random())
        monkeypatch.setenv("TEST_ORDER", order)
        with subtests.test(order):
            check(suite.tests("-q"))


def check(tests: dict[str, Any]) -> None:
    counts = {name: tests[name]["graphs"].get("dynamo", 0) for name in GRAPHS}
    assert counts == GRAPHS
    assert {name: tests[f"test_leaks_{name}"]["leaks"] for name in LEFT} == LEFT
    assert not any(test["errors"] for test in tests.values())
    assert len({json.dumps(test["settings"]) for test in tests.values()}) == 1


@pytest.mark.usefixtures("xla_forks")
@pytest.mark.parametrize(
    "way",
    [pytest.param("-n2", marks=pytest.mark.once), "--forked"],
)
def test_in_other_processes(suite: Suite, way: str) -> None:
    if way == "--forked":
        pytest.importorskip("pytest_forked")
    suite.write(COUNTED + leaking())
    suite.pytester.runpytest_subprocess("--graph-budget-report=graphs.json", way)
    check(suite.reported())


KEPT = """
import unittest
import pytest, torch
import torch._dynamo.config as config
import torch._functorch.config
import torch.fx.experimental._config

config.accumulated_recompile_limit = 70        # a module sets it: it stays

def value(name): return getattr(config, name)

@pytest.fixture
def sets():
    config.recompile_limit = 5

def test_a_fixture_sets(sets): assert value("recompile_limit") == 5
def test_b_what_a_fixture_set_stays(): assert value("recompile_limit") == 5

@pytest.fixture(scope="session")
def shared(): config.assume_static_by_default = False

def test_c_asks_for_a_fixture_in_its_call(request):
    config.dynamic_shapes = False
    request.getfixturevalue("shared")

def test_d_that_one_stays_and_what_the_test_set_does_not():
    assert (value("assume_static_by_default"), value("dynamic_shapes")) == (False, True)

def test_e_imports_a_module_that_sets():
    config.dynamic_shapes = False
    import sets_on_import
    config.specialize_int = True

def test_f_what_the_module_set_stays():
    assert torch.get_default_dtype() == torch.float64
    assert value("allow_rnn") and value("capture_scalar_outputs")
    assert (value("dynamic_shapes"), value("specialize_int")) == (True, False)

def test_g_a_setting_of_a_fixture_is_what_comes_back(sets):
    config.recompile_limit = 6

def test_h_and_it_did(): assert value("recompile_limit") == 5

@pytest.fixture
def puts_back():
    before = value("dynamic_shapes")
    yield
    config.dynamic_shapes = before

def test_i_its_fixture_puts_it_back(puts_back): config.dynamic_shapes = False

def test_j_patches():
    with config.patch(dynamic_shapes=False), torch.no_grad(), torch.device("meta"):
        torch.compile(lambda x: x + 1, backend="eager")(torch.ones(3))

@config.patch(dynamic_shapes=False)
def test_k_is_patched(): torch.compile(lambda x: x + 1, backend="eager")(torch.ones(3))

class TestCase(unittest.TestCase):
    @classmethod
    def setUpClass(cls): config.assume_static_by_default = "of the class"
    def setUp(self): config.dynamic_shapes = "of setUp"
    def test_l(self): assert value("dynamic_shapes") == "of setUp"

@config.patch(specialize_int=True)
class TestPatched(unittest.TestCase):
    def test_m(self): assert value("specialize_int") is True

def test_n_what_was_left():
    assert value("assume_static_by_default") == "of the class"
    assert (value("dynamic_shapes"), value("specialize_int")) == (True, False)

@torch.compiler.set_stance("force_eager")
def test_o_has_a_stance(): torch.compile(lambda x: x + 1, backend="eager")(torch.ones(3))

def test_p_back_to_the_default_is_a_change_too():
    config.accumulated_recompile_limit = 256

def test_q_it_was(): assert value("accumulated_recompile_limit") == 70

def test_r_fails_in_its_tear_down(breaks):
    config.dynamic_shapes = False

@pytest.fixture
def breaks():
    yield
    raise ValueError

def test_s_after_it(): assert value("dynamic_shapes") is True
"""
SETS_ON_IMPORT = """
import torch._dynamo.config
import sets_too
def set(): torch._dynamo.config.allow_rnn = True
set()
torch.set_default_dtype(torch.float64)
"""
SETS_TOO = """
import torch
torch._dynamo.config.capture_scalar_outputs = True
"""
NOTES = {
    "test_c_asks_for_a_fixture_in_its_call": "dynamic_shapes = False (it was True)",
    "test_e_imports_a_module_that_sets": "dynamic_shapes = False (it was True), "
    "torch._dynamo.config.specialize_int = True (it was False)",
    "test_g_a_setting_of_a_fixture_is_what_comes_back": "recompile_limit = 6 (it was 5)",
    "TestCase::test_l": "dynamic_shapes = of setUp (it was True)",
    "test_p_back_to_the_default_is_a_change_too": "accumulated_recompile_limit = 256 (it was 70)",
    "test_r_fails_in_its_tear_down": "dynamic_shapes = False (it was True)",
}


@pytest.mark.usefixtures("xla_forks")
def test_what_stays_and_what_does_not(suite: Suite) -> None:
    suite.write(KEPT)
    suite.write(SETS_ON_IMPORT, "sets_on_import")
    suite.write(SETS_TOO, "sets_too")
    done = suite.pytester.runpytest_subprocess("--graph-budget-report=graphs.json")
    done.assert_outcomes(passed=19, errors=1)
    notes = {name: test["note"] for name, test in suite.reported().items() if test["note"]}
    assert notes.pop("test_o_has_a_stance").startswith('torch.compiler.set_stance("force_eager")')
    assert notes == {
        name: f"test_it.py::{name} left torch._dynamo.config.{note}; put back after it"
        for name, note in NOTES.items()
    }
    done.stdout.fnmatch_lines(
        ["settings   test_it.py::test_g_* left recompile_limit = 6", "19 tests on *"]
    )


REPORTED = """
import pytest, torch
def test_leaks(): torch._dynamo.config.dynamic_shapes = False
def test_finds(): assert torch._dynamo.config.dynamic_shapes is False
"""


def test_without_isolation_it_is_only_reported(suite: Suite) -> None:
    (suite.path / "pytest.ini").write_text("[pytest]\ngraph_budget_isolation = none\n")
    import torch._dynamo.config

    with torch._dynamo.config.patch(dynamic_shapes=True):
        suite.write(REPORTED)
        tests = suite.tests()
    assert [test["outcome"] for test in tests.values()] == ["passed", "passed"]
    assert tests["test_leaks"]["note"] == (
        "test_it.py::test_leaks left torch._dynamo.config.dynamic_shapes = False (it was True); "
        "it stays, since tests are not isolated"
    )
    settings = tests["test_finds"]["settings"]
    assert settings["torch._dynamo.config.dynamic_shapes"] is False


def test_a_marked_test_keeps_what_it_leaves(suite: Suite) -> None:
    import torch._dynamo.config

    mark = "@pytest.mark.graph_budget(isolate=False)\n"
    suite.write(REPORTED.replace("def test_leaks", f"{mark}def test_leaks"))
    with torch._dynamo.config.patch(dynamic_shapes=True):
        suite.run("--graph-budget-report=graphs.json").assert_outcomes(passed=2)


BLIND = """
import torch
import torch._dynamo.eval_frame as frame

def test_hides_the_stance():
    global stance
    stance = frame._stance
    del frame._stance

def test_compiles():
    frame._stance = stance
    torch.compile(lambda x: x + 1, backend="eager")(torch.ones(3))
    del frame._stance

def test_does_not(): frame._stance = stance
def test_after_it():
    torch.compile(lambda x: x + 1, backend="eager")(torch.ones(3))
"""


def test_settings_that_cannot_be_read_are_reported(suite: Suite) -> None:
    suite.write(BLIND)
    tests = list(suite.tests().values())
    words = "torch's settings could not be read: dynamo: torch._dynamo.eval_frame._stance cannot"
    assert tests[0]["note"].startswith(words)
    assert [error.startswith(words) for error in tests[1]["errors"]] == [True]
    assert tests[2]["note"].startswith(words)
    assert (tests[3]["errors"], tests[3]["note"]) == ([], None)


STUCK = """
import torch
import torch._dynamo

def broken(*args, **kwargs): raise OSError("no more stances")

def test_leaks():
    torch.compiler.set_stance(force_backend="eager")
    torch.compiler.set_stance = broken

def test_compiles(): torch.compile(lambda x: x + 1, backend="eager")(torch.ones(3))
def test_does_not(): pass
"""


def test_what_cannot_be_put_back_is_reported_to_those_after_it(
    suite: Suite, monkeypatch: pytest.MonkeyPatch
) -> None:
    import torch

    put = torch.compiler.set_stance
    monkeypatch.setattr(torch.compiler, "set_stance", put)
    suite.write(STUCK)
    try:
        leaks, compiles, does_not = suite.tests().values()
    finally:
        put("default")
    why = "torch's settings could not be put back: OSError: no more stances"
    left = "test_it.py::test_leaks left stance = default, force_backend eager (it was default)"
    assert leaks["note"] == f"{left}; {why}"
    assert (compiles["errors"], compiles["note"]) == ([f"{left}: {why}"], None)
    assert (does_not["errors"], does_not["note"]) == ([], f"{left}: {why}")
