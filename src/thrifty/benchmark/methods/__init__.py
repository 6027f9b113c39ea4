"""Methods of the benchmark: thrifty's own, the paper's scheme, and other libraries'."""
