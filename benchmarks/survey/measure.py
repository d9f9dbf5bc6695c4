"""One model: built small, run without the compiler, then compiled and observed."""

from __future__ import annotations

import time
from typing import Any, Final

from benchmarks.survey.architectures import Architecture, architectures
from benchmarks.survey.inputs import Inputs, Unknown, candidates, with_places
from benchmarks.survey.shrink import WAYS, shrunk

LARGEST: Final = 150_000_000
"""Parameters. What stays larger is not built: its memory is not ours to take."""
TOKENS: Final = 4
"""Tokens that ``generate`` is asked for, after the prompt."""

Plain = dict[str, Any]


class NotBuilt(Exception):
    """No small model of this class could be built and run without the compiler."""


def measured(each: Architecture) -> Plain:
    """What the model made; of one that cannot be built, why not."""
    import torch

    began = time.process_time()
    found: Plain = {"model": each.name, "type": each.type, "part": each.part}
    try:
        model, inputs, way = built(each)
    except NotBuilt as why:
        return {**found, "status": "not built", "why": str(why)}
    found |= {"shrunk": way, "inputs": _shapes(inputs)}
    with torch.no_grad():
        found |= _compiled(model, inputs)
        if each.generates and found["status"] == "ran":
            found["generate"] = _generated(model, inputs)
    return {**found, "seconds": round(time.process_time() - began, 1)}


def built(each: Architecture, **values: Any) -> tuple[Any, Inputs, str]:
    """A small model and inputs that it takes, and how it was made small. Raises ``NotBuilt``.

    ``values`` are of the configuration, in place of those of the class.
    """
    said: list[str] = []
    for way in WAYS:
        try:
            model = _model(each, way, values)
        except Exception as error:
            said.append(_line(error))
            continue
        try:
            for inputs in candidates(model):
                taken, why = _taken(model, inputs)
                if taken is not None:
                    return model, taken, way
                said.append(f"given {', '.join(_shapes(inputs))}: {why}")
        except Unknown as error:
            said.append(str(error))
    raise NotBuilt(said[0])


def small(name: str, **values: Any) -> tuple[Any, Inputs]:
    """A small model of a class, by its name, and inputs that it takes. Raises ``NotBuilt``."""
    each = next(each for each in architectures() if each.name == name)
    model, inputs, _ = built(each, **values)
    return model, inputs


def _model(each: Architecture, way: str, values: Plain) -> Any:
    import torch
    import transformers
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING

    kind = getattr(transformers, each.name)
    config = shrunk(CONFIG_MAPPING[each.type], way, **values)
    wanted = kind.config_class
    if wanted is not None and not isinstance(config, wanted):
        config = shrunk(wanted, way, **values)
    if each.name.endswith("ForSequenceClassification"):  # it looks for the last word of each text
        for part in (config, config.get_text_config()):
            if getattr(part, "pad_token_id", None) is None:
                part.pad_token_id = 0
    with torch.device("meta"):
        size = sum(parameter.numel() for parameter in kind(config).parameters())
    if size > LARGEST:
        raise NotBuilt(f"{size / 1e6:.0f} million parameters stay")
    torch.manual_seed(0)
    return kind(config).eval()


def _taken(model: Any, inputs: Inputs) -> tuple[Inputs | None, str]:
    """The inputs as the model takes them without the compiler, or None and what it says."""
    import torch

    said = ""
    for _ in range(3):
        try:
            with torch.no_grad():
                torch.manual_seed(0)
                model(**inputs)
        except Exception as error:
            said = _line(error)
            better = with_places(model, inputs, said)
            if better is None:
                return None, said
            inputs = better
        else:
            return inputs, ""
    return None, said


def _compiled(model: Any, inputs: Inputs) -> Plain:
    """Two calls with the same inputs, and the counts of both."""
    import torch

    from pytest_graphbreak import observe

    torch.manual_seed(0)
    expected = model(**inputs)
    torch._dynamo.reset()
    failed = ""
    torch.manual_seed(0)
    with observe() as seen:
        compiled = torch.compile(model, backend="eager")
        try:
            output = compiled(**inputs)
            first = seen.record.graphs.get("dynamo", 0)
            compiled(**inputs)
        except Exception as error:
            failed = _line(error)
            first = seen.record.graphs.get("dynamo", 0)
    found = {"status": "ran", **_reported(seen.record), "first": first}
    if failed:
        return {**found, "status": "failed compiled", "why": failed}
    return {**found, "equal": _equal(expected, output)}


def _generated(model: Any, inputs: Inputs) -> Plain:
    """``generate`` with a static cache, where the class has one, else with what it takes itself."""
    import torch

    from pytest_graphbreak import observe

    given = {key: value for key, value in inputs.items() if not key.startswith("decoder_")}
    asked = {"max_new_tokens": TOKENS, "min_new_tokens": TOKENS, "do_sample": False}
    said = ""
    for cache in ("static", None):
        torch._dynamo.reset()
        plain = model.forward
        try:
            expected = model.generate(**given, **asked, cache_implementation=cache)
            with observe() as seen:
                model.forward = torch.compile(plain, backend="eager")
                output = model.generate(**given, **asked, cache_implementation=cache)
        except Exception as error:
            said = _line(error)
            continue
        finally:
            model.__dict__.pop("forward", None)
        reported = _reported(seen.record)
        return {"cache": cache or "its own", **reported, "equal": _equal(expected, output)}
    return {"why": said}


def _reported(record: Any) -> Plain:
    return {
        "graphs": record.graphs.get("dynamo", 0),
        "ops": record.ops.get("dynamo", 0),
        "breaks": [
            {
                "file": item.where.file,
                "function": item.where.function,
                "line": item.where.line,
                "code": item.where.code,
                "reason": item.reason,
                "id": item.id,
                "count": item.count,
            }
            for item in record.breaks
        ],
        "recompiles": [
            {"function": f"{item.where.file}::{item.where.function}", "reason": item.reason[:200]}
            for item in record.recompile_list
        ],
        "eager": [
            {
                "file": item.where.file,
                "function": item.where.function,
                "reason": item.reason[:200],
                "count": item.count,
            }
            for item in record.eager
        ],
        "errors": list(record.errors),
    }


def _tensors(value: Any) -> list[Any]:
    import torch

    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, dict):
        return [each for item in value.values() for each in _tensors(item)]
    if isinstance(value, (list, tuple)):
        return [each for item in value for each in _tensors(item)]
    return []


def _equal(expected: Any, output: Any) -> bool:
    import torch

    pairs = list(zip(_tensors(expected), _tensors(output), strict=False))
    return len(_tensors(expected)) == len(_tensors(output)) and all(
        one.shape == other.shape
        and torch.allclose(one.double(), other.double(), atol=1e-3, rtol=1e-3, equal_nan=True)
        for one, other in pairs
        if not one.is_complex()
    )


def _shapes(inputs: Inputs) -> list[str]:
    return [f"{name}{list(value.shape)}".replace(" ", "") for name, value in inputs.items()]


def _line(error: BaseException) -> str:
    """The error in one line that is the same on every machine."""
    text = " ".join(f"{type(error).__name__}: {error}".split())
    return text[:240]
