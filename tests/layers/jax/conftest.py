"""Four virtual devices, before JAX opens any, and quick compilations: a count is the same."""

from __future__ import annotations

from tests.jax_models import conftest as _conftest  # noqa: F401  # sets both where JAX is there
