"""What happens without numba, without a folder for its cache, and what `import thrifty` loads."""

from __future__ import annotations

import subprocess
import sys


def _python(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_import_loads_no_numba_and_names_are_complete():
    code = """
import sys, thrifty as th
assert "numba" not in sys.modules and "thrifty.models" not in sys.modules
assert set(th.models.__all__) <= set(dir(th.models)) and "numba" not in sys.modules
th.models.GaussianToy().run([0.1], 3)
assert "numba" not in sys.modules
for name in th.models.__all__:
    assert getattr(th.models, name).__name__ == name
try:
    th.models.Gama
except AttributeError as error:
    print(error)
"""
    assert "Gamma" in _python(code)


def test_without_numba_the_extra_is_named():
    code = """
import sys
sys.modules["numba"] = None
import thrifty as th
from thrifty.errors import MissingExtraError
print(th.models.GaussianToy().run([0.1], 3).cost)
for name in ("Gamma", "HomogeneousSIR", "TemporalSIR", "BernoulliSIR", "Radio"):
    try:
        getattr(th.models, name)
    except MissingExtraError as error:
        assert error.code == "missing-extra" and "thrifty[models]" in error.fix, error
    else:
        raise SystemExit(f"{name} came without numba")
"""
    assert float(_python(code)) > 1


def test_without_a_place_for_the_cache_kernels_still_run():
    """Read-only site-packages and home: numba then refuses to cache, and the model compiles in memory."""
    code = """
from numba.core.caching import CacheImpl
for kind in CacheImpl.__subclasses__():
    kind._locator_classes = []
CacheImpl._locator_classes = []
import numpy as np
import thrifty as th
from thrifty.models.temporal_sir import _outbreak
assert type(_outbreak._cache).__name__ == "NullCache", _outbreak._cache
print(th.models.TemporalSIR().simulate([0.5, 0.5], np.random.default_rng(3))[0])
"""
    import numpy as np

    import thrifty as th

    expected = th.models.TemporalSIR().simulate([0.5, 0.5], np.random.default_rng(3))[0]
    assert float(_python(code)) == expected
