"""The run folder on disk: checksummed rows in SQLite, their backup, lock and repair. Knows rows, not proposals."""
