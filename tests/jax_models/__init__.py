"""Models of flax, equinox and plain JAX under the gate, with random weights."""
