"""Models of transformers under the gate, built from small random configurations."""
