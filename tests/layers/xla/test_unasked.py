"""Observing asks nothing of a device before the program has used one, and never waits for it.

Each program runs in a process of its own, in which no client is open: what comes first fixes the
rest.
"""

from __future__ import annotations

import pytest

from tests.conftest import Suite

pytest.importorskip("torch_xla")
pytestmark = pytest.mark.usefixtures("xla_forks")

COUNTED_FIRST = """
    import pytest, torch, torch_xla, torch_xla.runtime as xr

    DEVICES = xr.global_runtime_device_count()

    @pytest.fixture(scope="module", autouse=True)
    def spmd():
        xr.use_spmd()

    def test_first():
        assert (torch.ones(2, 8, device="xla") + 1).sum().item() == 32
"""

COUNTED_IN_A_TEST = """
    import pytest, torch, torch_xla, torch_xla.runtime as xr

    def test_count():
        if xr.global_runtime_device_count() < 99:
            pytest.skip("too few")

    def test_spmd():
        xr.use_spmd()
        assert (torch.ones(2, 8, device="xla") + 1).sum().item() == 32
"""

READERS = """
    import pytest, threading, torch, torch_xla
    from concurrent.futures import ThreadPoolExecutor

    def work(n):
        x = torch.arange(float(n)).to(torch_xla.device())
        return (x * 2 + n).sum().item(), bool((x > 1).any()), (x + n).cpu()

    def test_pool():
        with ThreadPoolExecutor(4) as pool:
            assert len(list(pool.map(work, [3, 4, 5] * 8))) == 24

    @pytest.mark.parametrize("size", [0, 2])
    def test_item(size):
        x = torch.ones(size, device="xla")
        with pytest.raises(RuntimeError, match=f"^a Tensor with {size} elements cannot be conv"):
            x.item()

    def test_kinds():
        x = torch.ones(3, device="xla", requires_grad=True)
        assert [type(x.sum().item()), type((x > 0).all().item())] == [float, bool]
        assert type(torch.ones(1, dtype=torch.int64, device="xla").item()) is int
        with torch.inference_mode():
            assert x.sum().item() == torch.ones(2, device="xla").sum() + 1
"""


@pytest.mark.parametrize("devices", ["1", "4"])
@pytest.mark.parametrize("program", [COUNTED_FIRST, COUNTED_IN_A_TEST])
def test_a_program_that_asks_for_the_number_of_devices_may_still_choose_spmd(
    suite: Suite, monkeypatch: pytest.MonkeyPatch, program: str, devices: str
) -> None:
    monkeypatch.setenv("PJRT_DEVICE", "CPU")
    monkeypatch.setenv("CPU_NUM_DEVICES", devices)
    suite.write(program)
    result = _run(suite, "-W", "error:Replicating tensors")
    result.assert_outcomes(passed=1, skipped=int(program is COUNTED_IN_A_TEST))


def test_reads_are_as_without_us(suite: Suite, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PJRT_DEVICE", "CPU")
    suite.write(READERS)
    _run(suite).assert_outcomes(passed=4)


def _run(suite: Suite, *args: str) -> pytest.RunResult:
    report = "--graph-budget-report=graphs.json"
    return suite.pytester.runpytest_subprocess("-p", "no:cacheprovider", report, *args, timeout=200)
