"""What remedies share to rewrite source: a tree of libcst, branches, where a program compiles."""
