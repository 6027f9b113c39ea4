"""Draws from an unnormalised posterior: a tempered start, then emcee, or NUTS where there are gradients."""
