"""Problems of the benchmark, by kind of model."""
