"""torch's settings are read as they are, compared by value, and put back exactly."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

import pytest
import torch
import torch._dynamo
import torch._dynamo.config as config
import torch._functorch.config
import torch._inductor.config
import torch.fx.experimental._config

from pytest_graphbreak.layers import settings


@pytest.fixture(autouse=True)
def _clean() -> Iterator[None]:
    before = settings.take()
    yield
    for key in settings.changed_keys(before, settings.take()):
        settings.put_back(before, key)


def moved(change: Callable[[], Any]) -> dict[str, tuple[Any, Any]]:
    """What a change is reported as; it is put back, and then nothing differs."""
    before = settings.take()
    change()
    after = settings.take()
    keys = settings.changed_keys(before, after)
    found = {item.name: (item.before, item.after) for item in settings.changes(before, after, keys)}
    for key in keys:
        settings.put_back(before, key)
    assert settings.changed_keys(before, settings.take()) == []
    return found


def patched() -> None:
    with config.patch(disable=True, recompile_limit=3), torch.no_grad(), torch.device("meta"):
        torch.compile(lambda x: x + 1, backend="eager")


def enter_autocast() -> None:
    torch.autocast("cpu", torch.float16).__enter__()


@pytest.mark.parametrize(
    ("change", "reported"),
    [
        (lambda: setattr(config, "disable", True), {"torch._dynamo.config.disable": (False, True)}),
        (
            lambda: setattr(torch._inductor.config.triton, "store_cubin", "x"),
            {"torch._inductor.config.triton.store_cubin": (False, "x")},
        ),
        (
            lambda: setattr(torch._functorch.config, "functionalize_rng_ops", True),
            {"torch._functorch.config.functionalize_rng_ops": (False, True)},
        ),
        (
            lambda: setattr(torch.fx.experimental._config, "translation_validation", True),
            {"torch.fx.experimental._config.translation_validation": (False, True)},
        ),
        (
            lambda: torch.compiler.set_stance("eager_on_recompile"),
            {"stance": ("default", "eager_on_recompile")},
        ),
        (
            lambda: torch.compiler.set_stance(force_backend="eager"),
            {"stance": ("default", "default, force_backend eager")},
        ),
        (lambda: torch.set_grad_enabled(False), {"grad_mode": (True, False)}),
        (
            lambda: torch.set_default_dtype(torch.float64),
            {"default_dtype": ("torch.float32", "torch.float64")},
        ),
        (lambda: torch.set_default_device("meta"), {"default_device": (None, "meta")}),
        (enter_autocast, {"autocast": ("off", "cpu torch.float16")}),
        (
            lambda: torch.set_autocast_cache_enabled(False),
            {"autocast": ("off", "off, without cache")},
        ),
        (
            lambda: config.reorderable_logging_functions.add(print),  # in place
            {"torch._dynamo.config.reorderable_logging_functions": ("{}", "{builtins.print}")},
        ),
        (
            lambda: delattr(config, "suppress_errors"),
            {"torch._dynamo.config.suppress_errors": (False, "deleted")},
        ),
        (
            lambda: setattr(config, "cache_size_limit", 3),  # an alias
            {"torch._dynamo.config.recompile_limit": (8, 3)},
        ),
        (lambda: setattr(config, "disable", False), {}),
        (patched, {}),
    ],
)
def test_a_change_is_named_and_put_back(
    change: Callable[[], Any], reported: dict[str, Any]
) -> None:
    assert moved(change) == reported


def override(name: str) -> Any:
    found = config._config[name].user_override
    return found.get() if isinstance(found, ContextVar) else found


def test_put_back_means_never_set() -> None:
    before, digest = override("dynamic_shapes"), config.get_hash()
    moved(lambda: setattr(config, "dynamic_shapes", "another"))
    assert override("dynamic_shapes") is before
    assert config.get_hash() == digest  # torch knew that it had to be hashed anew


def test_a_device_is_asked_for_after_it_was_put_back() -> None:
    moved(lambda: torch.set_default_device("meta"))
    assert torch.get_default_device() == torch.device("cpu")
    assert torch.ones(1).device == torch.device("cpu")


def test_an_autocast_that_was_left_keeps_no_casts() -> None:
    depth = torch.autocast_increment_nesting()
    torch.autocast_decrement_nesting()
    moved(enter_autocast)
    assert torch.autocast_increment_nesting() == depth
    torch.autocast_decrement_nesting()


def test_what_is_not_the_default() -> None:
    usual = settings.unusual(settings.take())
    config.capture_scalar_outputs = True
    config.verbose = config._config["verbose"].default
    torch.set_grad_enabled(False)
    found = settings.unusual(settings.take())
    assert {name: found[name] for name in found.keys() - usual.keys()} == {
        "torch._dynamo.config.capture_scalar_outputs": True,
        "grad_mode": False,
    }


def test_nothing_is_read_where_torch_is_not_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.delitem(sys.modules, "torch")
        nothing = settings.take()
    assert nothing == settings.Snapshot()
    assert settings.unusual(nothing) == {}


def test_what_a_module_had_before_it_was_loaded_is_its_default() -> None:
    config.dynamic_shapes = "another"
    keys = settings.changed_keys(settings.Snapshot(), settings.take())
    reported = settings.changes(settings.Snapshot(), settings.take(), keys)
    assert str(next(item for item in reported if item.name.endswith("dynamic_shapes"))) == (
        "torch._dynamo.config.dynamic_shapes = another (it was True)"
    )


@pytest.mark.parametrize(
    ("owner", "name"),
    [("torch._dynamo.eval_frame", "_stance"), ("torch", "_GLOBAL_DEVICE_CONTEXT")],
)
def test_a_name_of_torch_that_is_gone_is_named(
    owner: str, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.delattr(sys.modules[owner], name)
        with pytest.raises(settings.SettingsError, match=rf"could not be read: .*{owner}\.{name}"):
            settings.take()


def helper() -> None: ...


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (True, True),
        (1.5, 1.5),
        (float("nan"), "nan"),
        (None, None),
        ({"b", "a"}, "{'a', 'b'}"),
        ([helper, {"x": (1, 2)}], "[tests.layers.test_settings.helper, {'x': [1, 2]}]"),
        (object(), "<object object at 0x...>"),
        ("x" * 300, "x" * 197 + "..."),
        (torch.float16, "torch.float16"),
    ],
)
def test_values_are_spelled_alike_in_every_process(value: Any, words: Any) -> None:
    assert settings.spell(value) == words


def test_a_torch_that_is_being_imported_has_its_defaults(monkeypatch: pytest.MonkeyPatch) -> None:
    """As where a test imports torch in its call: it is there, and next to nothing is in it yet."""
    begun = ModuleType("torch")
    begun.__spec__ = ModuleSpec("torch", None)
    monkeypatch.setattr(begun.__spec__, "_initializing", True, raising=False)
    monkeypatch.setitem(sys.modules, "torch", begun)
    assert settings.take() == settings.Snapshot()
