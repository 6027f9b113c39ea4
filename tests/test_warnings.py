"""Each warning is said once, however many steps find the same."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import thrifty as th
from thrifty.errors import warn, warn_once


def test_once_in_a_context_and_again_outside():
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        with warn_once():
            warn("a")
            with warn_once():
                warn("a")
            warn("b")
        warn("a")
    assert [str(one.message) for one in said] == ["a", "b", "a"]


def test_a_study_warns_once_of_a_far_observation():
    rng = np.random.default_rng(0)
    theta = rng.normal(size=(2000, 1))
    sims = th.Simulations.from_arrays(theta=theta, x={"mean": (theta + rng.normal(size=theta.shape))[:, 0]})
    study = th.Study(th.ABC(th.Normal(0, 1)).fit(sims), sims, np.array([30.0]), method="abc")
    with pytest.warns(th.ThriftyWarning) as said:
        assert len(study.samples) and study.diagnosis.verdict and str(study)
    far = [one for one in said if "far-observation" in str(one.message)]
    assert len(far) == 1 and "(mean; up to" in str(far[0].message)


def test_a_warning_points_at_the_line_of_the_user(tmp_path):
    """However deep in thrifty it arises: a fit inside a quote, weights inside a table."""
    prior = th.Uniform(0, 1)
    c = th.Campaign(
        tmp_path / "c", lambda theta, rng: th.Output(rng.normal(), cost=rng.lognormal(0, 2)), prior, cost="reported"
    )
    c.pilot(30, engine=th.Inline(), progress="quiet")
    with pytest.warns(th.ThriftyWarning) as said:
        c.plan(n=50, penalty=1)
    with pytest.warns(th.ThriftyWarning) as more:
        c.simulations(allow_incomplete=True)
    assert {one.filename for one in (*said, *more)} == {__file__}
