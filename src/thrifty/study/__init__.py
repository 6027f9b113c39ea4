"""A whole study in one call: `infer`, the `Study` it returns, and the demonstration."""
