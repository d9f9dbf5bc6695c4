"""The programs of the situations, by the compiler that records them."""
