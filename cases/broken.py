"""Broken programs, each a script of its own, for `graphbreak repro` and `graphbreak fix`.

``FAST`` is the subset that ``fix`` is tested with.
"""

from __future__ import annotations

import textwrap
from typing import Final

_HEAD = "import torch\nfrom torch import nn\n\n\n"

_MODULE = """
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(4, 4)
        self.b = nn.Linear(4, 4)

    def forward(self, x):
{body}


torch.manual_seed(0)
model = torch.compile(Model(), backend="eager")
{run}
"""
_INFER = "with torch.no_grad():\n    model(torch.randn(3, 4))\n    model(torch.randn(3, 4) - 1)"
_TRAIN = "model(torch.randn(3, 4)).sum().backward()"

_FUNCTION = """
{head}
def f(x{more}):
{body}


f = torch.compile(f, backend="eager"{options})
{run}
"""
_CALL = "f(torch.arange(1.0, 5.0))\nf(-torch.arange(1.0, 5.0))"


def _indent(code: str, by: int) -> str:
    return textwrap.indent(textwrap.dedent(code).strip(), " " * by)


def _module(body: str, run: str = _INFER, head: str = "") -> str:
    text = _MODULE.format(body=_indent(body, 8), run=run)
    return _HEAD + (textwrap.dedent(head).strip() + "\n\n\n" if head else "") + text.strip() + "\n"


def _function(
    body: str, head: str = "", run: str = _CALL, more: str = "", options: str = ""
) -> str:
    top = textwrap.dedent(head).strip()
    above = top + "\n\n\n" if top else ""
    text = _FUNCTION.format(body=_indent(body, 4), run=run, head=above, more=more, options=options)
    return _HEAD + text.strip() + "\n"


def _zoo(name: str, values: str, model: str, config: str, inputs: str) -> str:
    return textwrap.dedent(
        f"""
        import torch
        from transformers import {config}, {model}

        torch.manual_seed(0)
        model = {model}({config}({values})).eval()
        ids = torch.randint(3, 64, (2, 16))
        compiled = torch.compile(model, backend="eager")
        with torch.no_grad():
            compiled({inputs})
        """
    ).lstrip()


_ENCODER = (
    "vocab_size=64, hidden_size=32, num_hidden_layers=2, num_attention_heads=2, "
    "intermediate_size=64, max_position_embeddings=64"
)

BROKEN: Final[dict[str, str]] = {
    "branch": _function("y = x.sin()\nif y.sum() > 0:\n    y = y + 1\nreturn y * 2"),
    "branch_else": _module(
        """
        x = self.a(x)
        if x.mean() > 0:
            x = x * 2
        else:
            x = x - 3
        return self.b(x)
        """
    ),
    "branch_return": _function(
        "y = x.cos()\nif y.sum() > 0:\n    return y + 1\nelse:\n    return y - 1"
    ),
    "branch_blocks": _module(
        """
        x = self.a(x)
        scale = x.abs().mean()
        if x.sum() > 0:
            x = x.relu()
            scale = scale + 1
        else:
            x = x.tanh()
            scale = scale * 2
        return self.b(x) * scale
        """
    ),
    "branch_train": _module(
        """
        x = self.a(x)
        if x.norm() > 1:
            x = x / x.norm()
        return self.b(x)
        """,
        _TRAIN,
    ),
    "ternary": _function("y = x.sin()\ny = y * 2 if y.max() > 0.5 else y * 3\nreturn y + 1"),
    "while": _function("y = x.abs() + 1\nwhile y.sum() < 100:\n    y = y * 2\nreturn y + 1"),
    "item": _function("y = x.sin()\nscale = y.sum().item()\nreturn y * scale"),
    "item_branch": _module(
        """
        x = self.a(x)
        if x.max().item() > 0.5:
            x = x * 0.5
        return self.b(x)
        """
    ),
    "float": _module("x = self.a(x)\nx = x * float(x.std())\nreturn self.b(x)", _TRAIN),
    "tolist": _function("y = x.sin()\nvalues = y.tolist()\nreturn y * len(values) + values[0]"),
    "nonzero": _function("y = x * 2\nreturn torch.nonzero(y > 2).sum() + 1"),
    "mask": _function("y = x * 2\nreturn y[y > 2].sum() + 1"),
    "unique": _function("y = (x * 2).round()\nreturn torch.unique(y).sum() + 1"),
    "print": _function('y = x.sin()\nprint("forward")\nreturn y + 1'),
    "print_tensor": _module('x = self.a(x)\nprint("mean", x.mean())\nreturn self.b(x)'),
    "print_shape": _module('x = self.a(x)\nprint(f"{x.shape}")\nprint(x.shape)\nreturn self.b(x)'),
    "logging": _module(
        'x = self.a(x)\nlog.info("shape %s", x.shape)\nreturn self.b(x)',
        head="import logging\n\nlog = logging.getLogger('model')",
    ),
    "warnings": _module(
        'x = self.a(x)\nwarnings.warn("careful", stacklevel=2)\nreturn self.b(x)',
        head="import warnings",
    ),
    "c_call": _function(
        'y = x.sin()\nseed = zlib.crc32(b"abc") % 7\nreturn y * seed', head="import zlib"
    ),
    "disabled": _function(
        "y = helper(x.sin())\nreturn y * 2",
        head="@torch.compiler.disable\ndef helper(x):\n    return x + 1",
    ),
    "graph_break": _function("y = x.sin()\ntorch._dynamo.graph_break()\nreturn y + 1"),
    "nested": _function(
        "return outer(x.sin()) + 1",
        head="""
        def inner(x):
            y = x.cos()
            print("inner")
            return y * 2


        def outer(x):
            return inner(x + 1).tanh()
        """,
    ),
    "loop_break": _module(
        """
        for _ in range(3):
            x = self.a(x)
            print("layer")
        return self.b(x)
        """
    ),
    "check": _module(
        """
        x = self.a(x)
        if x.isnan().any():
            raise ValueError("not a number")
        return self.b(x)
        """
    ),
    "try_break": _module(
        """
        x = self.a(x)
        try:
            scale = x.sum().item()
        finally:
            x = x + 1
        return self.b(x) * scale
        """
    ),
    "lengths": _function(
        "return (x * 2).sum() + x.shape[0]",
        run="for size in (3, 5, 7, 9):\n    f(torch.ones(size))",
    ),
    "counter": _HEAD
    + textwrap.dedent(
        """
        class Model(nn.Module):
            def __init__(self):
                super().__init__()
                self.steps = 0

            def forward(self, x):
                self.steps += 1
                return x * self.steps


        model = torch.compile(Model(), backend="eager")
        for _ in range(4):
            model(torch.ones(4))
        """
    ).lstrip(),
    "numpy_call": _function(
        "y = x.sin()\nn = int(np.random.RandomState(0).randint(5))\nreturn y * n",
        head="import numpy as np",
    ),
    "file_write": _function('y = x.sin()\nos.write(2, b"seen")\nreturn y + 1', head="import os"),
    "lengths_of_one_dim": _function(
        "y = x * 2\nreturn y.sum(0) + x.shape[0]",
        run="for size in (3, 5, 7, 9):\n    f(torch.ones(size, 8))",
    ),
    "lengths_fixed": _module(
        """
        rows = [None for _ in range(x.shape[0])]
        return self.b(self.a(x).relu())
        """,
        run="for size in (3, 5, 6, 8):\n    model(torch.randn(size, 4)).sum().backward()",
    ),
    "floats": _function(
        "return x.sin() * scale",
        run="for scale in (0.5, 2.5, 7.0):\n    f(torch.ones(3), scale)",
        more=", scale",
    ),
    "lengths_and_floats": _function(
        "return (x * scale).sin()",
        run="for size, scale in ((3, 0.5), (5, 2.5), (8, 7.0)):\n    f(torch.ones(size), scale)",
        more=", scale",
        options=", dynamic=False",
    ),
    "helper_c": _function(
        "return helper(x.sin()) + 1",
        head="""
        import hashlib


        def helper(x):
            seed = hashlib.md5(b"abc").digest()[0]
            return x * seed
        """,
    ),
    "helper_numpy": _function(
        "return helper(x.sin()) + 1",
        head="""
        import numpy as np


        def helper(x):
            return x + torch.from_numpy(np.spacing(x.numpy()))
        """,
    ),
    "helper_math": _function(
        "return normalised(x.sin()) + 1",
        head="""
        import math


        def normalised(x):
            largest = max(abs(value) for value in x.tolist())
            return x / math.sqrt(largest) if largest > 1e-6 else x * 0
        """,
    ),
    "ufunc": _function("y = x.sin()\nreturn np.spacing(y) * 2", head="import numpy as np"),
    "longformer": _zoo(
        "longformer",
        f"{_ENCODER}, attention_window=4, pad_token_id=0, bos_token_id=1, eos_token_id=2",
        "LongformerModel",
        "LongformerConfig",
        "input_ids=ids, attention_mask=torch.ones_like(ids)",
    ),
    "reformer": _zoo(
        "reformer",
        "vocab_size=64, hidden_size=32, attention_head_size=16, num_attention_heads=2, "
        'feed_forward_size=64, attn_layers=["local", "lsh"], axial_pos_shape=[4, 4], '
        "axial_pos_embds_dim=[16, 16], local_attn_chunk_length=4, lsh_attn_chunk_length=4, "
        "num_buckets=2, num_hashes=1, hash_seed=0, max_position_embeddings=16, "
        "is_decoder=False, pad_token_id=0, bos_token_id=1, eos_token_id=2",
        "ReformerModel",
        "ReformerConfig",
        "input_ids=ids",
    ),
    "bigbird": _zoo(
        "bigbird",
        f'{_ENCODER}, attention_type="block_sparse", block_size=2, num_random_blocks=1, '
        "pad_token_id=0, bos_token_id=1, eos_token_id=2, sep_token_id=2",
        "BigBirdModel",
        "BigBirdConfig",
        "input_ids=ids, attention_mask=torch.ones_like(ids)",
    ),
}

FAST: Final = (
    "branch_train",
    "item",
    "mask",
    "print_tensor",
    "disabled",
    "lengths",
    "lengths_and_floats",
)
