"""What can be asked of any posterior: evidence, corrections, conditionals and marginals."""
