from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

import store_folder


@pytest.fixture
def store(tmp_path):
    """A store of 30 planned runs, of which 12 are done."""
    store = store_folder.make_store(tmp_path / "c")
    yield store
    store.close()
