"""What ``fix`` and ``repro`` write is not collected, and acts on no import."""

from __future__ import annotations

import pytest

from tests.repair.conftest import Shop

pytestmark = pytest.mark.once

HELPER = "def helper(x):\n    return x + 1\n"
TEST = """
    import torch
    from helping import helper

    class Net(torch.nn.Module):
        def forward(self, x):
            return helper(x * x.sum().item())

    def test_net():
        net = Net()
        assert torch.compile(net, backend="eager")(torch.ones(3)).shape == (3,)
"""
OPTIONS = ("-q", "-p", "no:cacheprovider")


@pytest.fixture
def suite(shop: Shop) -> Shop:
    """A checkout whose package pytest finds by its ``pythonpath``."""
    (shop.path / "src").mkdir()
    (shop.path / "tests").mkdir()
    (shop.path / "src/helping.py").write_text(HELPER)
    (shop.path / "pytest.ini").write_text("[pytest]\npythonpath = src\npython_files = *.py\n")
    shop.write("tests/test_net.py", TEST)
    return shop


def test_scripts_replace_no_file_of_the_user_and_name_no_path_of_this_machine(suite: Shop) -> None:
    node = "tests/test_net.py::test_net"
    out = suite.path / "tests/more"
    out.mkdir()
    (out / "net_repro_1.py").write_text("mine = 1\n")
    (out / "net_repro_2.pt").write_text("mine")
    (out / "net_repro_3.py").symlink_to("gone.py")
    other = "# Written by `graphbreak repro tests/test_other.py::test_a`: f.\n"
    (out / "net_repro_4.py").write_text(other)
    test = out / "test_net_repro_1.py"  # of this target, from a run before
    test.write_text(other.replace("other.py::test_a", "net.py::test_net"))
    before = suite.files()
    said = suite.run("repro", node, "--out", "tests/more")
    assert "verified   tests/more/net_repro_5.py" in said.out, said.out + said.err
    said = suite.run("repro", node, "--out", "tests/more", "--as-test")
    assert "Net as loaded" in said.out, said.out + said.err
    assert suite.files() - before == {"tests/more/net_repro_5.py"}
    assert (out / "net_repro_1.py").read_text() == "mine = 1\n"
    assert (out / "net_repro_4.py").read_text() == other
    text = (out / "net_repro_5.py").read_text()
    # pytest knows the way; the root comes last, as for ``python -m pytest``.
    assert "sys.path.insert" not in test.read_text()
    assert str(suite.path) not in text + test.read_text()
    seen = suite.python("-m", "pytest", *OPTIONS, "--collect-only", "--ignore=src").stdout
    assert seen.count("::") == 2, seen  # the test, and the one that was asked for


@pytest.mark.parametrize("out", ["a.py/x", "n" * 300])
def test_a_place_that_cannot_be_written_to_is_found_out_first(out: str, shop: Shop) -> None:
    (shop.path / "a.py").write_text("raise SystemExit('it ran')\n")
    said = shop.run("repro", "a.py", "--out", out)
    assert said.code == 2
    assert f"graphbreak repro: {out}: cannot be written to: " in said.err
    assert "it ran" not in said.out + said.err
    assert shop.files() == {"a.py"}
