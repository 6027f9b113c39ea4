"""Seeds from test names, so that no test is tuned to a lucky number."""

from __future__ import annotations

import zlib

import numpy as np
import pytest


def pytest_configure() -> None:
    """Draw without a screen."""
    import matplotlib

    matplotlib.use("Agg")


@pytest.fixture
def seed(request: pytest.FixtureRequest) -> int:
    """A seed made from the test's name."""
    return zlib.crc32(request.node.nodeid.rsplit("/", 1)[-1].encode())


@pytest.fixture
def rng(seed: int) -> np.random.Generator:
    """A generator made from the test's name."""
    return np.random.default_rng(seed)


@pytest.fixture(autouse=True)
def doctest_names(doctest_namespace: dict[str, object]) -> None:
    """`np` and `th` in every docstring example."""
    import thrifty

    doctest_namespace["np"] = np
    doctest_namespace["th"] = thrifty
