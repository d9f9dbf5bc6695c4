"""A time limit for calls with inputs that a program was not made for."""

from __future__ import annotations

import signal
import threading
import time

import pytest

from pytest_graphbreak.repair.limit import TooLongError, time_limit
from tests.repair.conftest import Shop

pytestmark = pytest.mark.once


def endless() -> None:
    while True:
        try:
            time.sleep(0.001)
        except Exception:  # as programs have it
            continue


def test_a_loop_without_an_end_is_left() -> None:
    with pytest.raises(TooLongError), time_limit(0.05):
        endless()


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


LOOP = """
import torch


def f(x):
    while (x < 0).all() or x.sum() > 9:
        x = x.clamp(max=1.5) - 0.25
    return x


torch.compile(f, backend="eager")(torch.full((8,), 2.0))
"""


@pytest.mark.nightly  # it takes its ten seconds
def test_an_input_for_which_a_program_does_not_end_is_left_out(shop: Shop) -> None:
    """What is negative stays so: the inputs "negated", and "negated, with gradients"."""
    shop.write("a.py", LOOP)
    said = shop.succeed("fix", "a.py")
    assert ", 2 did not end without the compiler" in said.out
