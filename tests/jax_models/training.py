"""Steps of training with optax: the first step compiles, those after it do not."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import nnx

from tests.jax_models import linen_models, nnx_models
from tests.jax_models.linen_models import digits

Array = Any
Tree = Any


class LinenTrainer:
    """Parameters, an optimizer and its state, and a step that is one program."""

    def __init__(self) -> None:
        self.model = linen_models.Classifier()
        self.data, self.labels = digits(16, 64), np.arange(16) % 10
        self.params = linen_models.initialised(self.model, self.data)
        self.optimizer = optax.adamw(1e-2)
        self.state = jax.jit(self.optimizer.init)(self.params)
        self.compiled = jax.jit(self._step, donate_argnums=(0, 1))
        self.losses: list[Array] = []

    def _step(self, params: Tree, state: Tree, x: Array, y: Array) -> tuple[Tree, Tree, Array]:
        def loss(params: Tree) -> Array:
            scores = self.model.apply(params, x)
            return -jnp.take_along_axis(scores, y[:, None], -1).mean()

        value, grads = jax.value_and_grad(loss)(params)
        updates, state = self.optimizer.update(grads, state, params)
        return optax.apply_updates(params, updates), state, value

    def step(self) -> None:
        self.params, self.state, loss = self.compiled(
            self.params, self.state, self.data, self.labels
        )
        self.losses.append(loss)


class NnxTrainer:
    """`nnx.Optimizer`, and a step that changes the model in place."""

    def __init__(self) -> None:
        self.data, self.labels = digits(16, 64), np.arange(16) % 10
        self.model = nnx_models.built(nnx_models.Mlp)
        self.optimizer = nnx.jit(
            lambda model: nnx.Optimizer(model, optax.sgd(0.1, 0.9), wrt=nnx.Param)
        )(self.model)
        self.losses: list[Array] = []

    @staticmethod
    @nnx.jit
    def _step(model: Any, optimizer: Any, x: Array, y: Array) -> Array:
        def loss(model: Any) -> Array:
            return optax.softmax_cross_entropy_with_integer_labels(model(x), y).mean()

        value, grads = nnx.value_and_grad(loss)(model)
        optimizer.update(model, grads)
        return value

    def step(self) -> None:
        self.losses.append(self._step(self.model, self.optimizer, self.data, self.labels))
