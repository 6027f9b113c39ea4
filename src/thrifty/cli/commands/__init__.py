"""The commands, one per file; each returns its exit code."""
