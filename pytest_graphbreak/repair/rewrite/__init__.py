"""What all remedies share to rewrite source: a tree of libcst, names, tests, helpers."""
