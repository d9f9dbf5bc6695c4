"""What a program sets before it compiles goes into the scripts that are taken out of it."""

from __future__ import annotations

from pytest_graphbreak.repair.heading import heading
from pytest_graphbreak.repair.settings import Setup, settings

PROGRAM = """
import os
os.environ["XLA_FLAGS"] = "--one"
os.environ["PATHS"] = os.environ.get("PATHS", "") + ":here"
os.environ.setdefault("MODE", "fast")
os.environ[KEY] = "1"
import numpy as np
import torch
import torch._dynamo.config as config
import torch_xla
import torch_xla.runtime as xr

torch.set_default_dtype(torch.bfloat16)
torch.set_default_dtype(chosen())
config.recompile_limit = 3
torch._dynamo.config.cache_size = limit


def main():
    xr.set_device_type("TT")
    torch_xla.set_custom_compile_options({"optimization_level": 1})
    if FAST:
        torch.manual_seed(4)
    np.random.seed(5)
    print("a")
    run(1)


if __name__ == "__main__":
    torch.manual_seed(7)
    main()
"""


def test_statements_that_set_something_plain_are_found() -> None:
    assert settings(PROGRAM) == Setup(
        imports=(
            "import torch",
            "import torch._dynamo.config as config",
            "import torch_xla.runtime as xr",
            "import torch_xla",
            "import numpy as np",
        ),
        environment=(
            "import os",
            "os.environ['XLA_FLAGS'] = '--one'",
            "os.environ['PATHS'] = os.environ.get('PATHS', '') + ':here'",
            "os.environ.setdefault('MODE', 'fast')",
        ),
        lines=(
            "torch.set_default_dtype(torch.bfloat16)",
            "config.recompile_limit = 3",
            "xr.set_device_type('TT')",
            "torch_xla.set_custom_compile_options({'optimization_level': 1})",
            "np.random.seed(5)",
            "torch.manual_seed(7)",
        ),
    )


def test_a_program_that_sets_nothing() -> None:
    assert settings("import torch\n\nx = torch.ones(2)\nprint(x)\n") == Setup()


def test_an_import_goes_with_each_name() -> None:
    """Of several modules in one statement only those that bind the name."""
    text = "from os import environ\nimport json, torch, torch._inductor\nenviron['A'] = '1'\n"
    found = settings(f"{text}torch._inductor.config.debug = True\n")
    assert found.environment == ("from os import environ", "environ['A'] = '1'")
    assert found.imports == ("import torch", "import torch._inductor")


TOP = ("from __future__ import annotations", "import os", "import own", 'os.environ["A"] = "1"')


def test_a_script_sets_the_environment_before_it_imports() -> None:
    """And once, however the program writes the statement."""
    environment = ("import os", "os.environ['A'] = '1'")
    lines = heading(
        ["import torch", "import os"],
        (*TOP, "x = 1"),
        {"own": "'/here'"},
        as_test=True,
        environment=environment,
    )
    assert lines == [
        *("from __future__ import annotations", "", *environment),
        *("import sys", "import torch", "sys.path.insert(0, '/here')"),
        *("import own", "", "x = 1"),
    ]
