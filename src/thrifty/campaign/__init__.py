"""Durable campaigns (`Campaign`) and runs in memory (`simulate`): where store, runner and proposals meet."""
