"""Neural posterior, likelihood and ratio estimation with weighted simulations."""
