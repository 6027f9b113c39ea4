"""Execute tasks: one loop hands bundles to an engine, records outcomes and stops without bias.

The runner knows tasks, not proposals.
"""
