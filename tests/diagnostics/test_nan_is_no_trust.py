"""What cannot be told is no reason for trust; small samples get exact p-values; weights are not dropped on import."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

import thrifty as th
from thrifty.diagnostics.verdict import judge_effect


def test_nan_is_not_trusted():
    assert judge_effect(float("nan"), 0.0, small=0.1, large=0.2) == "do not trust"
    assert judge_effect(0.5, float("nan"), small=0.1, large=0.2) == "do not trust"
    assert judge_effect(0.5, 0.0, small=0.1, large=0.2) == "trust"


def test_small_samples_have_exact_p_values(rng):
    assert th.metrics.ks([[0.0], [1.0], [2.0]], [[3.0], [4.0], [5.0]]).p_value[0] == pytest.approx(0.1)
    a, b = rng.normal(size=(8, 1)), rng.normal(size=(9, 1))
    assert th.metrics.ks(a, b).p_value[0] == pytest.approx(stats.ks_2samp(a[:, 0], b[:, 0], method="exact").pvalue)


def test_weights_by_another_name_are_not_forgotten(tmp_path):
    np.savez(tmp_path / "w.npz", theta=[[1.0], [2.0]], x=[[1.0], [2.0]], weights=[1.0, 3.0])
    with pytest.raises(th.ThriftyError, match="would be dropped"):
        th.Simulations.from_npz(tmp_path / "w.npz")
    (tmp_path / "w.csv").write_text("a,y,weight\n1,2,3\n4,5,6\n")
    with pytest.raises(th.ThriftyError, match="not as a weight"):
        th.Simulations.from_csv(tmp_path / "w.csv", theta=["a"])
    named = th.Simulations.from_csv(tmp_path / "w.csv", theta=["a"], x=["y"], weights="weight")
    assert np.exp(named.log_weights) == pytest.approx([3.0, 6.0])


def test_a_rearranged_frame_keeps_its_outputs():
    pytest.importorskip("pandas")
    sims = th.Simulations.from_arrays(theta=[[1.0], [2.0]], x=[[1.0, 2.0], [3.0, 4.0]])
    frame = sims.to_pandas()
    turned = frame[list(frame.columns)[::-1]]
    turned.attrs = frame.attrs
    assert np.array_equal(th.Simulations.from_pandas(turned).x, sims.x)
