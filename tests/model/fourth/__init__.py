"""A layer that the package does not have, as ``test_fourth_layer`` adds it to a copy of it."""
