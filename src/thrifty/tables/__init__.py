"""The frozen table that inference sees: simulations with their draws and weights, and its files."""
