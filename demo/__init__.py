"""The README's first command: the gate on real models, green and then red."""
