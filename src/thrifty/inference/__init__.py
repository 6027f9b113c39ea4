"""Inference: settings in, `fit(simulations, seed=...)` out comes a posterior. One method a file."""
