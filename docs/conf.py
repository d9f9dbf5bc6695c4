"""The documentation site: ``tox run -e docs`` builds it, strictly, into ``build/site``."""

from __future__ import annotations

from pathlib import Path

import tomllib

_PYPROJECT = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text())

project = "pytest-graphbreak"
author = copyright = "The pytest-graphbreak developers"
version = release = _PYPROJECT["project"]["version"]

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx_copybutton"]

myst_heading_anchors = 4  # links to headings, as GitHub has them

autodoc_member_order = "bysource"
autodoc_typehints = "signature"

html_theme = "furo"
html_title = "pytest-graphbreak"
html_copy_source = False
html_show_sphinx = False
copybutton_prompt_text = "$ "
