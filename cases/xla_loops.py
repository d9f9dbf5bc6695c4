"""Training and decode loops on torch_xla: how often graphs run, and which values are read.

What is true of a loop, torch_xla's metrics say in a fresh process without the plugin
(``xla_runs.py raw``). The lines that run graphs or read values are marked ``# asks``: each
execution and each read that is counted has to be told with one of them.
"""

from __future__ import annotations

import io
import threading
from collections.abc import Callable
from typing import Any

import torch
import torch_xla
import torch_xla.core.xla_model as xm
from torch import nn
from torch_xla.distributed.parallel_loader import MpDeviceLoader, ParallelLoader

from cases.xla import Case

LOOPS: dict[str, Case] = {}


def loop(run: Callable[[], Any]) -> Callable[[], Any]:
    """Register a loop; ``graphs`` is not known here."""
    LOOPS[run.__name__] = Case(run.__name__, run, -1, ())
    return run


def layers(count: int = 4) -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(*(nn.Linear(4, 4) for _ in range(count))).to("xla")


def batch(size: int = 2, seed: int = 0) -> torch.Tensor:
    return torch.randn(size, 4, generator=torch.Generator().manual_seed(seed)).to("xla")


class Step:
    """A small model in training."""

    def __init__(self, optimizer: str = "SGD", **options: Any) -> None:
        self.model = layers(2)
        parameters = self.model.parameters()
        self.optimizer = getattr(torch.optim, optimizer)(parameters, lr=0.1, **options)
        torch_xla.sync()  # asks

    def backward(self, seed: int = 0, parts: int = 1) -> torch.Tensor:
        loss = self.model(batch(seed=seed)).pow(2).mean() / parts
        loss.backward()
        return loss

    def update(self) -> None:
        self.optimizer.step()
        self.optimizer.zero_grad()


# --- layers -----------------------------------------------------------------------------


@loop
def one_sync_at_the_end() -> None:
    model = layers()
    for _ in range(3):
        x = batch()
        for layer in model:
            x = layer(x)
        torch_xla.sync()  # asks


@loop
def a_sync_after_each_layer() -> None:
    model = layers()
    for _ in range(3):
        x = batch()
        for layer in model:
            x = layer(x)
            torch_xla.sync()  # asks


@loop
def each_layer_compiled() -> None:
    model = layers()
    torch_xla.sync()  # asks
    parts = [torch.compile(layer, backend="openxla") for layer in model]
    with torch.no_grad():
        for _ in range(3):
            x = batch()
            for part in parts:
                x = part(x)  # asks
            torch_xla.sync()  # asks


@loop
def the_whole_compiled() -> None:
    model = layers()
    torch_xla.sync()  # asks
    compiled = torch.compile(model, backend="openxla")
    with torch.no_grad():
        for _ in range(4):
            compiled(batch())  # asks


@loop
def a_layer_of_another_size() -> None:
    for size in (2, 3, 2, 3, 4):
        x = batch(size) * 2
        torch_xla.sync()  # asks
        del x


# --- training ---------------------------------------------------------------------------


@loop
def sgd() -> None:
    step = Step()
    for number in range(4):
        step.backward(number)
        step.update()
        torch_xla.sync()  # asks


@loop
def adam_with_a_schedule() -> None:
    step = Step("AdamW")
    schedule = torch.optim.lr_scheduler.StepLR(step.optimizer, 1, 0.5)
    for number in range(4):
        step.backward(number)
        step.update()
        schedule.step()
        torch_xla.sync()  # asks


@loop
def gradients_of_four_parts() -> None:
    step = Step()
    for number in range(8):
        step.backward(number, parts=4)
        if number % 4 == 3:
            step.update()
            torch_xla.sync()  # asks


@loop
def a_sync_for_each_part() -> None:
    step = Step()
    for number in range(8):
        step.backward(number, parts=4)
        torch_xla.sync()  # asks
        if number % 4 == 3:
            step.update()
            torch_xla.sync()  # asks


@loop
def the_loss_of_each_step() -> None:
    step = Step()
    losses = []
    for number in range(4):
        loss = step.backward(number)
        step.update()
        losses.append(loss.item())  # asks


@loop
def the_loss_of_every_second_step() -> None:
    step = Step()
    for number in range(6):
        loss = step.backward(number)
        step.update()
        torch_xla.sync()  # asks
        if number % 2:
            print(f"loss {loss:.3f}")  # asks


@loop
def the_losses_at_the_end() -> None:
    step = Step()
    losses = []
    for number in range(4):
        losses.append(step.backward(number).detach())
        step.update()
        torch_xla.sync()  # asks
    torch.stack(losses).cpu()  # asks


@loop
def gradients_are_clipped() -> None:
    step = Step()
    for number in range(3):
        step.backward(number)
        torch.nn.utils.clip_grad_norm_(step.model.parameters(), 1.0)
        step.update()
        torch_xla.sync()  # asks


@loop
def the_norm_is_logged() -> None:
    step = Step()
    for number in range(3):
        step.backward(number)
        norm = torch.nn.utils.clip_grad_norm_(step.model.parameters(), 1.0)
        step.update()
        torch_xla.sync()  # asks
        float(norm)  # asks


@loop
def a_step_that_may_overflow() -> None:
    step = Step()
    for number in range(3):
        loss = step.backward(number)
        if torch.isfinite(loss):  # asks
            step.update()
        torch_xla.sync()  # asks


@loop
def checkpoints() -> None:
    step = Step()
    for number in range(4):
        step.backward(number)
        step.update()
        torch_xla.sync()  # asks
        if number % 2:
            state = {key: value.cpu() for key, value in step.model.state_dict().items()}  # asks
            torch.save(state, io.BytesIO())


@loop
def optimizer_step_of_xm() -> None:
    step = Step()
    for number in range(3):
        step.backward(number)
        xm.optimizer_step(step.optimizer, barrier=True)  # asks
        step.optimizer.zero_grad()


@loop
def steps_of_torch_xla() -> None:
    step = Step()
    for number in range(3):
        with torch_xla.step():  # asks
            step.backward(number)
            step.update()


@loop
def a_step_compiled_by_torch_xla() -> None:
    step = Step()

    def train(number: int) -> torch.Tensor:
        loss = step.backward(number)
        step.update()
        return loss

    compiled = torch_xla.compile(train)
    for number in range(3):
        compiled(number)  # asks


@loop
def mixed_precision() -> None:
    step = Step()
    for number in range(3):
        with torch.autocast("xla", torch.bfloat16):
            loss = step.model(batch(seed=number)).pow(2).mean()
        loss.backward()
        step.update()
        torch_xla.sync()  # asks


@loop
def a_mean_that_moves() -> None:
    model = nn.BatchNorm1d(4).to("xla")
    for number in range(3):
        model(batch(seed=number))
        torch_xla.sync()  # asks


# --- loaders ----------------------------------------------------------------------------


@loop
def a_loader_in_the_foreground() -> None:
    step = Step()
    for values in torch.utils.data.DataLoader(torch.ones(8, 4), batch_size=2):
        loss = step.model(values.to("xla")).pow(2).mean()
        loss.backward()
        step.update()
        torch_xla.sync()  # asks


def loader() -> torch.utils.data.DataLoader[torch.Tensor]:
    return torch.utils.data.DataLoader(torch.arange(32.0).reshape(8, 4), batch_size=2)  # type: ignore[arg-type]


@loop
def a_loader_in_the_background() -> None:
    step = Step()
    for values in MpDeviceLoader(loader(), torch_xla.device()):  # asks
        step.model(values).pow(2).mean().backward()
        step.update()


@loop
def a_loader_in_the_background_and_a_log() -> None:
    step = Step()
    for values in MpDeviceLoader(loader(), torch_xla.device()):  # asks
        loss = step.model(values).pow(2).mean()
        loss.backward()
        step.update()
        loss.item()  # asks


@loop
def two_batches_for_an_execution() -> None:
    step = Step()
    device = torch_xla.device()
    batches = ParallelLoader(loader(), [device], batches_per_execution=2)
    for values in batches.per_device_loader(device):  # asks
        step.model(values).pow(2).mean().backward()
        step.update()


# --- two devices ------------------------------------------------------------------------


@loop
def two_devices() -> None:
    first, second = batch(), batch().to("xla:1")  # asks
    for _ in range(3):
        first, second = first * 2, second + 1
        torch_xla.sync()  # asks
    second.sum().item()  # asks


@loop
def from_one_device_to_the_other() -> None:
    x = batch()
    for _ in range(3):
        y = (x * 2).to("xla:1")  # asks
        z = y + 1
        torch_xla.sync()  # asks
        del z


# --- decoding ---------------------------------------------------------------------------


@loop
def a_cache_that_grows() -> None:
    cache = batch(1)
    for _ in range(4):
        cache = torch.cat([cache, cache[-1:] * 2])
        torch_xla.sync()  # asks


@loop
def a_cache_of_one_size() -> None:
    cache = torch.zeros(8, 4).to("xla")
    position = torch.tensor([0]).to("xla")
    torch_xla.sync()  # asks
    for _ in range(4):
        cache = cache.index_copy(0, position, batch(1))
        position = position + 1
        torch_xla.sync()  # asks


@loop
def until_a_token() -> None:
    model = layers()
    token = batch(1)
    for _ in range(6):
        token = model(token)
        if token.argmax().item() == 99:  # asks
            break


@loop
def tokens_are_listed() -> None:
    model = layers()
    x = batch(3)
    for _ in range(3):
        x = model(x)
        x.topk(2).indices.tolist()  # asks


@loop
def a_compiled_model_decodes() -> None:
    model = layers()
    torch_xla.sync()  # asks
    compiled = torch.compile(model, backend="openxla")
    x = batch(1)
    with torch.no_grad():
        for _ in range(5):
            x = compiled(x)  # asks
            x.argmax().item()  # asks


@loop
def speculation_that_is_checked_once() -> None:
    model = layers()
    x = batch(1)
    for _ in range(2):
        for _ in range(3):
            x = model(x)
        bool((x > 0).all())  # asks


@loop
def arrays_of_numpy() -> None:
    model = layers()
    for number in range(3):
        model(batch(seed=number)).detach().cpu().numpy()  # asks


# --- what is shared ---------------------------------------------------------------------


@loop
def a_thread_that_logs() -> None:
    step = Step()
    for number in range(3):
        loss = step.backward(number).detach()
        step.update()
        torch_xla.sync()  # asks
        thread = threading.Thread(target=lambda value=loss: value.item())  # asks
        thread.start()
        thread.join()


@loop
def two_models() -> None:
    first, second = layers(2), layers(2)
    for number in range(3):
        x = first(batch(seed=number))
        torch_xla.sync()  # asks
        second(x)
        torch_xla.sync()  # asks


@loop
def evaluation_between() -> None:
    step = Step()
    for number in range(4):
        step.backward(number)
        step.update()
        torch_xla.sync()  # asks
        if number % 2:
            with torch.no_grad():
                right = (step.model(batch(4)) > 0).sum()
            right.item()  # asks


@loop
def nothing_is_pending() -> None:
    for _ in range(5):
        torch_xla.sync()


@loop
def a_value_is_read_twice() -> None:
    for number in range(3):
        value = batch(seed=number).sum()
        value.item()  # asks
        value.item()  # asks
