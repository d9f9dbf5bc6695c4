"""Calls with drawn inputs: a time limit, and optimizers as the uncompiled program has them."""

from __future__ import annotations

import signal
import threading
import time

import pytest
import torch

from pytest_graphbreak.repair.drawing import TooLongError, restore_capturable, time_limit

pytestmark = pytest.mark.once


def test_the_alarm_of_a_program_is_put_back() -> None:
    rung: list[int] = []
    before = signal.signal(signal.SIGALRM, lambda number, _: rung.append(number))
    try:
        signal.setitimer(signal.ITIMER_REAL, 60)
        with time_limit(60):
            pass
        assert signal.getitimer(signal.ITIMER_REAL)[0] > 50
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.raise_signal(signal.SIGALRM)
        assert rung == [signal.SIGALRM]
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def test_an_alarm_at_the_end_of_the_block_leaves_no_handler(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    before = signal.getsignal(signal.SIGALRM)
    setitimer = signal.setitimer

    def late(which: int, seconds: float, *rest: float) -> object:
        if seconds == 0 and signal.getsignal(signal.SIGALRM) is not before:
            signal.raise_signal(signal.SIGALRM)
        return setitimer(which, seconds, *rest)

    monkeypatch.setattr(signal, "setitimer", late)
    with pytest.raises(TooLongError), time_limit(60):
        pass
    assert signal.getsignal(signal.SIGALRM) is before


def test_another_thread_has_no_limit() -> None:
    ended: list[bool] = []

    def work() -> None:
        with time_limit(0.01):
            time.sleep(0.05)
        ended.append(True)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert ended == [True]


def test_what_the_compiler_set_in_an_optimizer_is_set_back() -> None:
    weight = torch.ones(2, requires_grad=True)
    opt = torch.optim.Adam([weight])
    opt.param_groups[0]["capturable"] = True
    restore_capturable([weight, opt])
    assert opt.param_groups[0]["capturable"] is False
    weight.grad = torch.ones(2)
    opt.step()
