"""Frozen tables that pass between the parts: draws with weights, simulations with draws, and their files."""
