"""``graphbreak run --model``: a model of transformers, without code."""

from __future__ import annotations

import importlib.util
from subprocess import CompletedProcess

import pytest

from pytest_graphbreak.cli import models
from tests.cli.conftest import Workspace
from tests.cli.tools import entry, python

pytestmark = pytest.mark.once


def run_model(workspace: Workspace, name: str, *options: str) -> CompletedProcess[str]:
    """Type the command in a process: pytest rewrites our modules, which runpy cannot run then."""
    pytest.importorskip("torch")
    pytest.importorskip("transformers")
    command = ("-m", "pytest_graphbreak", "run", "--device", "cpu", *options, "--model", name)
    return python(*command, cwd=workspace.path)


@pytest.mark.usefixtures("forks")
def test_a_model_is_reported_by_its_name_with_breaks_at_the_lines_of_the_library(
    workspace: Workspace,
) -> None:
    name = "transformers:longformer-base-4096"
    said = run_model(workspace, name, "--max-graphs", "1", "--json", "r.json")
    assert said.returncode == 1
    assert f"{name}   exit 0" in said.stdout.splitlines()
    assert "models/longformer/modeling_longformer.py:" in said.stdout
    assert "is_global_attn = is_index_global_attn.flatten().any().item()" in said.stdout
    assert "cli/models.py" not in said.stdout
    assert name not in said.stderr
    test = entry(workspace)
    assert test["nodeid"] == name
    file = "transformers/models/longformer/modeling_longformer.py"
    assert file in {graph["where"]["file"] for graph in test["graph_list"]}


@pytest.mark.usefixtures("forks")
@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("transformers:BERD", "has no model 'BERD'; did you mean 'bert'?"),
        ("transformers:whisper", "it takes input_features"),
        pytest.param(
            *("transformers:reformer", "cannot be run as a small model: Make sure that"),
            marks=pytest.mark.nightly,
        ),
    ],
)
def test_what_cannot_be_run_is_said_in_one_line(
    workspace: Workspace, name: str, words: str
) -> None:
    said = run_model(workspace, name)
    assert said.returncode == 2
    assert words in said.stderr
    assert "Traceback" not in said.stderr
    assert said.stdout == ""
    assert "exit 2" not in said.stderr


@pytest.mark.parametrize("name", ["bert", "transformers:", "hf:bert", ":"])
def test_a_name_says_its_library(workspace: Workspace, name: str) -> None:
    said = workspace.run("run", "--model", name, code=2)
    assert f"--model takes transformers:NAME, as transformers:bert-base, not {name!r}" in said.err


def test_a_model_without_the_option_says_what_to_type(workspace: Workspace) -> None:
    said = workspace.run("run", "transformers:bert-base", code=2)
    assert "run --model transformers:bert-base" in " ".join(said.err.split())


def test_without_transformers_the_command_says_what_to_install(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if "m" in name else name)
    said = workspace.run("run", "--model", "transformers:bert", code=2)
    assert "--model needs transformers: pip install transformers" in said.err


def test_the_kind_is_the_longest_that_the_name_begins_with() -> None:
    kinds = ["bert", "t5", "big_bird", "vit", "vit_mae", "xlm-roberta"]
    assert models.kind_of("bert-base-uncased", kinds) == "bert"
    assert models.kind_of("xlm-roberta-base", kinds) == "xlm-roberta"
    assert models.kind_of("berta", kinds) is None


def test_sizes_become_small_and_tokens_stay_in_the_vocabulary() -> None:
    defaults = {
        "vocab_size": 50257,
        "n_embd": 768,
        "n_layer": 12,
        "num_key_value_heads": None,
        "eos_token_id": 50256,
        "bos_token_id": 0,
        "model_type": "gpt2",
        "text_config": {"num_layers": 24},
    }
    assert models.small(defaults) == {
        "vocab_size": 256,
        "n_embd": 64,
        "n_layer": 2,
        "eos_token_id": 255,
        "bos_token_id": 0,
        "text_config": {"num_layers": 2},
    }
