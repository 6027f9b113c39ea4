"""Exact identities of cost-aware importance sampling on a finite parameter space: no Monte Carlo, no luck."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from scipy.integrate import quad

import thrifty as th
from thrifty import closed_form
from thrifty.penalties import Balance

SETTINGS = settings(max_examples=200, deadline=None, derandomize=True)


@st.composite
def finite_problems(draw, k_max: float = 8.0):
    """Probabilities, costs over 12 decades and an exponent, on 2 to 12 points."""
    size = draw(st.integers(2, 12))
    raw = draw(st.lists(st.floats(0.01, 1.0), min_size=size, max_size=size))
    logs = draw(st.lists(st.floats(-6.0, 6.0), min_size=size, max_size=size))
    k = draw(st.floats(0.0, k_max))
    p = np.array(raw) / np.sum(raw)
    return p, 10.0 ** np.array(logs), k


def gain(p, c, g):
    return (p @ c) * (p @ (1 / g)) / (p @ (c / g))


def efficiency(p, g):
    return 1 / ((p @ g) * (p @ (1 / g)))


def finite_proposal(p, c, penalty):
    """thrifty's own figures on a finite space: the reference draws are the points, each as often as its share."""
    counts = np.round(p * 10_000).astype(int)
    counts[0] += 10_000 - counts.sum()
    costs = np.repeat(c, counts)
    prior = th.Uniform(0, 1)
    return counts / 10_000, th.CostAware(prior, lambda t: np.full(len(t), c[0]), penalty, _costs=costs)


@SETTINGS
@given(finite_problems())
def test_gain_times_efficiency(problem):
    p, c, k = problem
    p, q = finite_proposal(p, c, th.Power(k))
    g = c**k
    expected = (p @ c) / ((p @ (c / g)) * (p @ g))
    assert q.gain * q.ess_fraction == pytest.approx(expected, rel=1e-10)
    assert q.gain == pytest.approx(gain(p, c, g), rel=1e-10)
    assert q.ess_fraction == pytest.approx(efficiency(p, g), rel=1e-10)


@SETTINGS
@given(finite_problems())
def test_linear_penalty_gives_exactly_one(problem):
    p, c, _ = problem
    _, q = finite_proposal(p, c, th.Power(1))
    assert abs(q.gain * q.ess_fraction - 1) < 1e-10


@SETTINGS
@given(finite_problems(k_max=1.0))
def test_symmetry_ceiling_and_argmax(problem):
    p, c, k = problem
    p, q = finite_proposal(p, c, th.Power(k))
    _, mirrored = finite_proposal(p, c, th.Power(1 - k))
    _, root = finite_proposal(p, c, th.Power(0.5))
    product = q.gain * q.ess_fraction
    ceiling = (p @ c) / (p @ np.sqrt(c)) ** 2
    assert product == pytest.approx(mirrored.gain * mirrored.ess_fraction, rel=1e-10)
    assert root.gain * root.ess_fraction == pytest.approx(ceiling, rel=1e-10)
    assert product <= ceiling * (1 + 1e-10)
    assert product >= 1 - 1e-10


@SETTINGS
@given(finite_problems(), st.floats(1.01, 3.0))
def test_outside_the_unit_interval_loses(problem, k):
    p, c, _ = problem
    _, q = finite_proposal(p, c, th.Power(k))
    assert q.gain * q.ess_fraction <= 1 + 1e-10


@SETTINGS
@given(finite_problems())
def test_proposition_1_acceptance(problem):
    p, c, k = problem
    p, q = finite_proposal(p, c, th.Power(k))
    g = c**k
    used = p > 0
    expected = g[used].min() * (p @ (1 / g))
    assert q.acceptance == pytest.approx(expected, rel=1e-9)
    assert 0 < q.acceptance <= 1 + 1e-12


@SETTINGS
@given(finite_problems(), st.integers(2, 50), st.integers(0, 2**32 - 1))
def test_proposition_2_weights(problem, n, seed):
    """g_min/(n g_max) <= w <= g_max/(n g_min) for any draws."""
    p, c, k = problem
    chosen = np.random.default_rng(seed).choice(len(c), size=n, p=p)
    log_g = th.Power(k).log(c)
    w = th.normalise(log_g[chosen])
    assert w.sum() == pytest.approx(1, rel=1e-12)
    assert np.isfinite(w).all()
    ratio = np.exp(log_g.max() - log_g.min())
    assert w.max() <= ratio / n * (1 + 1e-9)
    assert w.min() >= 1 / (n * ratio) * (1 - 1e-9)
    # units of cost and the scale of g do not matter
    assert th.normalise(th.Power(k).log(c * 3600)[chosen]) == pytest.approx(w, rel=1e-8, abs=1e-300)


@SETTINGS
@given(finite_problems(), st.lists(st.floats(-5, 5), min_size=12, max_size=12))
def test_proposition_2_variance(problem, values):
    """n var(estimate) = B E[g (f - mu)^2] lies within g_max/g_min of Var f."""
    p, c, k = problem
    f = np.array(values[: len(p)])
    g = c**k / (c**k).min()
    mu = p @ f
    ours = (p @ (1 / g)) * (p @ (g * (f - mu) ** 2))
    plain = p @ (f - mu) ** 2
    ratio = g.max() / g.min()
    assert plain / ratio * (1 - 1e-9) <= ours + 1e-12
    assert ours <= plain * ratio * (1 + 1e-9) + 1e-12


@SETTINGS
@given(finite_problems(), st.integers(1, 60), st.integers(0, 2**32 - 1))
def test_proposition_3_ess(problem, n, seed):
    """4 r/(1 + r)^2 <= ESS/n <= 1 (Kantorovich), for samples and for the population."""
    p, c, k = problem
    log_g = th.Power(k).log(c)
    r = np.exp(log_g.max() - log_g.min())
    lower = 4 * r / (1 + r) ** 2
    sample = log_g[np.random.default_rng(seed).choice(len(c), size=n, p=p)]
    fraction = th.ess(sample) / n
    assert lower * (1 - 1e-9) <= fraction <= 1 + 1e-9
    _, q = finite_proposal(p, c, th.Power(k))
    assert lower * (1 - 1e-9) <= q.ess_fraction <= 1 + 1e-9


@SETTINGS
@given(finite_problems())
def test_proposition_4_gain(problem):
    p, c, k = problem
    _, q = finite_proposal(p, c, th.Power(k))
    g = c**k
    assert 1 - 1e-10 <= q.gain <= g.max() / g.min() * (1 + 1e-10)


@SETTINGS
@given(finite_problems(k_max=4.0), st.floats(0.01, 2.0))
def test_gain_rises_and_efficiency_falls_with_k(problem, step):
    p, c, k = problem
    _, weaker = finite_proposal(p, c, th.Power(k))
    _, stronger = finite_proposal(p, c, th.Power(k + step))
    assert stronger.gain >= weaker.gain * (1 - 1e-10)
    assert stronger.ess_fraction <= weaker.ess_fraction * (1 + 1e-10)


@SETTINGS
@given(finite_problems(), st.lists(st.floats(0.0, 4.0), min_size=1, max_size=4))
def test_mixture_is_one_proposal(problem, powers):
    """The balance penalty has B = 1, weights at most 1/share of the prior, and one component is plain."""
    p, c, _ = problem
    powers = [0.0, *powers]
    shares = np.full(len(powers), 1 / len(powers))
    log_b = [float(np.log(p @ c**-k)) for k in powers]
    balance = Balance(tuple(th.Power(k) for k in powers), tuple(shares), tuple(log_b))
    g = np.exp(balance.log(c))
    assert p @ (1 / g) == pytest.approx(1, rel=1e-10)
    assert g.max() <= len(powers) * (1 + 1e-10)
    order = np.argsort(c)
    assert (np.diff(g[order]) >= -1e-9 * g.max()).all()
    single = Balance((th.Power(powers[-1]),), (1.0,), (log_b[-1],))
    assert th.normalise(single.log(c)) == pytest.approx(th.normalise(th.Power(powers[-1]).log(c)), rel=1e-9)


@SETTINGS
@given(finite_problems(), st.floats(-6, 6), st.floats(-6, 6))
def test_floor_and_cap_keep_the_bounds(problem, a, b):
    p, c, k = problem
    low, high = sorted((10.0**a, 10.0**b))
    _, q = finite_proposal(p, c, th.Power(k, low=low, high=high))
    clipped = np.clip(c, low, high) ** k
    assert q.acceptance <= 1 + 1e-12
    assert q.ess_fraction == pytest.approx(efficiency(*_merged(p, clipped)), rel=0.02)
    assert q.gain >= 1 - 1e-10


def _merged(p, g):
    counts = np.round(p * 10_000).astype(int)
    counts[0] += 10_000 - counts.sum()
    return counts / 10_000, g


CLOSED = [(power, k) for power in (1, 2) for k in (0.5, 1, 1.5, 2, 3)]


@pytest.mark.parametrize(("power", "k"), CLOSED)
def test_closed_forms_against_quadrature(power: float, k: float):
    low, high, slope = 1.3, 7.1, 2.5

    def cost(t):
        return slope * t**power

    def mean(f):
        return quad(f, low, high, epsabs=0, epsrel=1e-12)[0] / (high - low)

    b = mean(lambda t: cost(t) ** -k)
    cg = mean(cost) * b / mean(lambda t: cost(t) ** (1 - k))
    efficiency = 1 / (b * mean(lambda t: cost(t) ** k))
    root = mean(cost) / mean(lambda t: cost(t) ** 0.5) ** 2
    assert closed_form.normaliser(low, high, k, power=power, slope=slope) == pytest.approx(b, rel=1e-6)
    assert closed_form.gain(low, high, k, power=power, slope=slope) == pytest.approx(cg, rel=1e-6)
    assert closed_form.ess_fraction(low, high, k, power=power, slope=slope) == pytest.approx(efficiency, rel=1e-6)
    assert closed_form.ceiling(low, high, power=power, slope=slope) == pytest.approx(root, rel=1e-6)


def test_closed_form_next_to_the_logarithm():
    exact = np.log(10) / 9
    for k in (1.0, np.nextafter(1, 2), 1 + 1e-12, 1 - 1e-9):
        assert closed_form.normaliser(1, 10, k) == pytest.approx(exact, rel=1e-8)


def test_closed_form_with_an_offset():
    low, high, k = 1.0, 4.0, 1.7
    b = quad(lambda t: (2 * t + 3) ** -k, low, high)[0] / (high - low)
    assert closed_form.normaliser(low, high, k, slope=2, offset=3) == pytest.approx(b, rel=1e-9)


def test_the_papers_table_of_gains():
    """The four printed expressions of appendix B."""
    a, b = 1.0, 10.0
    log = np.log(b / a)
    assert closed_form.gain(a, b, 1) == pytest.approx((b + a) * log / (2 * (b - a)))
    assert closed_form.gain(a, b, 1, power=2) == pytest.approx((b**3 - a**3) / (3 * (b - a) * a * b))
    assert closed_form.gain(a, b, 2) == pytest.approx((b**2 - a**2) / (2 * a * b * log))
    fourth = (b**3 - a**3) ** 2 / (9 * (b - a) ** 2 * b**2 * a**2)
    assert closed_form.gain(a, b, 2, power=2) == pytest.approx(fourth)


def test_third_row_of_the_papers_normalisers_is_a_misprint():
    low, high, alpha = 1.0, 7.0, 2.0
    right = quad(lambda t: 1 / (alpha * t**2), low, high)[0] / (high - low)
    printed = (1 / low - 1 / high) / (alpha**2 * (high - low))
    assert closed_form.normaliser(low, high, 1, power=2, slope=alpha) == pytest.approx(right)
    assert printed == pytest.approx(right / 2)


def test_gamma_table_of_the_paper():
    """Table 1 of the paper, from its own cost ratio 5.92 between theta = 100 and 1000.

    The printed figures come from 20,000 draws and two digits: 2.5 % is their resolution, not ours.
    """
    offset = (10 - 5.92) / 4.92 * 100  # c = theta + offset with c(1000)/c(100) = 5.92
    printed = {0.5: (0.94, 1.11), 1: (0.80, 1.25), 2: (0.42, 1.62), 3: (0.16, 2.06)}
    for k, (ess, cg) in printed.items():
        assert closed_form.gain(100, 1000, k, offset=offset) == pytest.approx(cg, rel=0.025)
        assert closed_form.ess_fraction(100, 1000, k, offset=offset) == pytest.approx(ess, abs=0.025)
