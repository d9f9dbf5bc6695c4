"""The frame of our pages: one file with its style, its script and its data.

A page asks for nothing from anywhere. Its content security policy names the hashes of that one
style and that one script, so a browser runs nothing else, whatever the data says; the script
writes text only as text.
"""

from __future__ import annotations

import base64
import hashlib
from importlib import resources
from typing import Any

from pytest_graphbreak.model.layers import DESCRIPTIONS
from pytest_graphbreak.text.safe import html, script_json


def fill(name: str, title: str, data: Any) -> str:
    """A page of this package with its style, its script and data in it.

    ``name`` is that of the HTML file and of the script beside it, which begin with what all
    pages have: ``frame.html`` and ``shared.js``.
    """
    style = _asset("page.css").replace("{{layers}}", _lines())
    script = f'"use strict";\n(() => {{\n{_asset("shared.js")}\n{_asset(f"{name}.js")}}})();\n'
    return (
        _asset("frame.html")
        .replace("{{body}}", _asset(f"{name}.html"))
        .replace("{{style-hash}}", _hash(style))
        .replace("{{script-hash}}", _hash(script))
        .replace("{{title}}", html(title))
        .replace("{{style}}", style)
        .replace("{{script}}", script)
        # The data comes last: nothing in it is replaced.
        .replace("{{data}}", script_json(data))
    )


def _lines() -> str:
    """How the line of each layer is drawn in a plot."""
    styles = [(layer.name, layer.style) for layer in DESCRIPTIONS.values()]
    strokes = [f".plots .l-{name} {{ stroke: {style.stroke}; }}" for name, style in styles]
    lines = [f".plots path.l-{name} {{ {style.line} }}" for name, style in styles if style.line]
    return f"{' '.join(strokes)}\n{' '.join(lines)}"


def _asset(name: str) -> str:
    return (resources.files(__package__) / "assets" / name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
