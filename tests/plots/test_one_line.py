"""Figures in one line, from what people have: no label on another, no mass where there is none, weights used."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pandas as pd
import pytest
from matplotlib.axis import Axis
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.text import Text

import thrifty as th
from thrifty import plots
from thrifty.errors import DataError
from thrifty.plots.density import find_column_ends, find_support
from thrifty.plots.drawn import read_drawn
from thrifty.plots.style import estimate_density
from thrifty.plots.tick_labels import break_name, format_ticks

PRIOR = th.Uniform([0.0, 0.0], [4.0, 2.0], names=["infection_rate", "removal_rate"])
WIDE = th.Uniform(
    [0, 0, -1e-5, 1000, 1000.01], [1e-4, 1, 1e-5, 90000, 1000.05],
    names=["diffusion_coefficient", "b", "tiny_negative", "population", "offset"],
)  # fmt: skip
X_O = [1.0, 2.0, 0.5]


def simulate(theta: np.ndarray, rng: np.random.Generator) -> th.Output:
    if theta[0] > 3.95:
        raise ValueError("too fast")
    x = [theta[0] + 0.4 * rng.normal(), rng.poisson(3 * theta[1]), rng.gamma(theta[0] + 0.1)]
    return th.Output(x, cost=float(np.exp(theta[0])))


@pytest.fixture(scope="module")
def campaign(tmp_path_factory: pytest.TempPathFactory) -> th.Campaign:
    made = th.Campaign(tmp_path_factory.mktemp("runs") / "a", simulate, PRIOR, seed=4, cost="reported", unit="events")
    made.pilot(60, engine=th.Inline(), progress="quiet")
    made.plan(n=500)
    made.run(engine=th.Inline(), progress="quiet")
    return made


@pytest.fixture(scope="module")
def sims(campaign: th.Campaign) -> th.Simulations:
    return campaign.simulations(max_failed=1)


@pytest.fixture(scope="module")
def posterior(sims: th.Simulations):
    return th.ABC(PRIOR, quantile=0.2, adjust="none").fit(sims)


def hidden_ticks(axis: Axis) -> list[Text]:
    """Labels of ticks beyond the ends of an axis, which matplotlib holds and does not draw."""
    low, high = sorted(axis.get_view_interval())
    return [t.label1 for t in (*axis.get_major_ticks(), *axis.get_minor_ticks()) if not low <= t.get_loc() <= high]


def find_overlaps(figure: Figure) -> list[tuple[str, str]]:
    """Pairs of visible texts whose boxes meet by more than a pixel."""
    figure.draw_without_rendering()
    renderer = FigureCanvasAgg(figure).get_renderer()
    hidden = {label for ax in figure.axes for axis in (ax.xaxis, ax.yaxis) for label in hidden_ticks(axis)}
    texts = [t for t in figure.findobj(Text) if t.get_visible() and t.get_text().strip() and t not in hidden]
    boxes = [(t.get_text(), t.get_window_extent(renderer)) for t in texts]
    found = []
    for (one, a), (other, b) in combinations(boxes, 2):
        width, height = min(a.x1, b.x1) - max(a.x0, b.x0), min(a.y1, b.y1) - max(a.y0, b.y0)
        if width > 1 and height > 1:
            found.append((one, other))
    return found


def test_no_label_lies_on_another(rng, campaign, sims, posterior):
    study = th.Study(posterior, sims, np.array(X_O), "abc", campaign)
    wide = WIDE.sample(400, rng)
    drawn = {
        "posterior": posterior.plot(X_O, prior=PRIOR, truth=[1.0, 0.5], others={"another method": sims.theta}),
        "weighted": posterior.accepted(X_O).plot(),
        "study": study.plot(),
        "wide": plots.pairs(wide, prior=WIDE, truth=wide[0]),
        "marginals": plots.marginals({"NPE": wide, "a long name": wide[:200]}, prior=WIDE),
        "simulations": sims.plot(x_o=X_O),
        "cost": campaign.plot_cost(),
        "weights": plots.weights(sims),
        "tradeoff": plots.tradeoff(campaign.quote(n=100)),
    }
    for slope in (0.0, 0.05, 0.5, 1.0, 2.0, 4.0, 8.0):
        drawn[f"tradeoff {slope}"] = plots.tradeoff(th.tradeoff(PRIOR, lambda theta, k=slope: np.exp(k * theta[:, 0])))
    assert {name: found for name, figure in drawn.items() if (found := find_overlaps(figure))} == {}


LONG_NAMES = ["infection_rate_of_the_second_strain", "diffusion_coefficient_membrane", "b",
              "kappa_between_compartments", "x" * 60, "another_name_of_many_words_in_it"]  # fmt: skip
LOW, HIGH = [0, 0, -1e-5, 1000, 1000.01, 1e6], [1e-4, 1, 1e-5, 90000, 1000.05, 9e9]


@pytest.mark.parametrize("dim", [1, 2, 6])
def test_long_names_and_extreme_ranges(dim, rng):
    prior = th.Uniform(LOW[:dim], HIGH[:dim], names=LONG_NAMES[:dim])
    theta = prior.sample(200, rng)
    x = np.column_stack([theta[:, 0] * 1e9, rng.poisson(3, 200), rng.gamma(1, size=200) * 1e-6])
    cost = np.exp(2 * theta[:, 0] / HIGH[0]) * rng.lognormal(0, 0.1, 200)
    x_names = ("final_size_of_the_outbreak_in_people", "duration", "peak_time_of_the_second_wave")
    sims = th.Simulations.from_arrays(theta=theta, x=x, cost=cost, names=prior.names, x_names=x_names)
    model = th.fit_cost(theta, cost)
    others = {"another method with a long name": theta[:100], "third": sims}
    drawn = {
        "pairs": plots.pairs(theta, prior=prior, truth=theta[0], others=others),
        "marginals": plots.marginals({"NPE": theta, **others}, prior=prior, truth=theta[0]),
        "simulations": sims.plot(x_o=x[0]),
        "cost": plots.cost_surface(model, prior, pilot=theta[:40], seconds=cost[:40]),
        "residuals": plots.cost_residuals(th.diagnostics.cost_check(model, sims)),
        "proposal": plots.proposal(th.CostAware(prior, model, 0.5), n=500),
        "failures": plots.failures(th.FailureMap.of(with_failures(sims, HIGH[0]))),
    }
    assert {name: found for name, figure in drawn.items() if (found := find_overlaps(figure))} == {}


def with_failures(sims: th.Simulations, high: float) -> th.Simulations:
    x = np.where(sims.theta[:, :1] > 0.8 * high, np.nan, sims.x)
    return th.Simulations.from_arrays(theta=sims.theta, x=x, names=sims.names)


def test_a_name_that_is_not_broken_overlaps(rng):
    """The mutant: long names as they are lie on each other."""
    figure = plots.pairs(rng.normal(size=(100, 3)), names=["a", "b", "c"])
    for ax in figure.axes[-3:]:
        ax.set_xlabel(LONG_NAMES[0])
    assert find_overlaps(figure)


def test_names_are_broken_and_nothing_of_them_is_lost():
    for name in LONG_NAMES[:4]:
        assert break_name(name, 16).replace("\n", "") == name
        assert max(map(len, break_name(name, 16).splitlines())) <= 16
    assert break_name("x" * 60, 16).endswith("…") and len(break_name("a_" * 60, 8).splitlines()) == 3


def test_repeated_draws_are_one_point(rng):
    """Draws of ABC repeat its runs: the density has the width of the distinct ones, and the same mean."""
    from thrifty.plots.panel import Panel, read_sets

    distinct = rng.normal(size=(40, 1))
    repeated = distinct[rng.integers(0, 40, 4000)]
    sample = Panel.of(read_sets({"a": repeated}, {}, None, None, 0), None, None, ()).samples["a"]
    assert len(sample.points) == len(np.unique(repeated)) and sample.weights.sum() == pytest.approx(1)
    assert sample.weights @ sample.points[:, 0] == pytest.approx(repeated.mean(), rel=1e-9)


def test_an_overlap_would_be_found():
    figure = Figure()
    ax = figure.subplots()
    ax.set_xticks([0.5, 0.501], ["20000000", "40000000"])
    assert ("20000000", "40000000") in find_overlaps(figure)


def test_posterior_plot(posterior, sims):
    figure = posterior.plot(X_O, prior=PRIOR, truth={"removal_rate": 0.5, "infection_rate": 1.0}, others={"runs": sims})
    (legend,) = figure.legends
    assert [t.get_text() for t in legend.get_texts()] == ["posterior", "50%", "90%", "runs", "prior", "truth"]
    lines = [line.get_xdata()[0] for line in figure.axes[0].lines if len(line.get_xdata()) == 2]
    assert lines == [1.0], "the truth by name, not by place"
    assert figure.axes[-1].get_xlabel() == "removal_rate"
    for ax in (figure.axes[0], figure.axes[-1]):
        for line in ax.lines:
            assert np.min(line.get_xdata()) >= 0, "nothing is drawn beyond the bounds"


def test_the_prior_is_drawn_when_a_posterior_has_one(sims):
    npe = th.NPE(PRIOR, training=th.Training(max_epochs=1), network=th.MixtureDensity(components=2)).fit(sims)
    labels = [t.get_text() for t in npe.plot(X_O).legends[0].get_texts()]
    assert labels == ["posterior", "50%", "90%", "prior"]
    assert "prior" not in [t.get_text() for t in npe.plot(X_O, prior=False).legends[0].get_texts()]


def test_what_is_drawn_carries_its_weights(sims, posterior):
    """The mean of what is drawn is the weighted mean, of everything that has weights; the mutant forgets them."""
    ok = sims.ok
    expected = th.normalise(sims.log_weights[ok]) @ sims.theta[ok]
    for given in (sims, th.Draws(sims.theta[ok], sims.log_weights[ok])):
        sample = read_drawn(given, name="runs").sample
        assert sample.weights @ sample.points == pytest.approx(expected, rel=1e-12)
    assert abs(sims.theta[ok].mean(0) - expected)[0] > 0.1, "without weights it would be another figure"
    accepted = posterior.accepted(X_O)
    sample = read_drawn(accepted, name="posterior").sample
    assert sample.weights @ sample.points == pytest.approx(accepted.mean, rel=1e-12)
    drawn = read_drawn(posterior, X_O, name="posterior").sample
    assert abs(drawn.points.mean(0) - accepted.mean).max() < 5 * accepted.sd.max() / np.sqrt(len(drawn.points))


def test_tables_of_other_libraries_keep_their_names(rng):
    frame = pd.DataFrame(rng.normal(size=(50, 2)), columns=["mu", "sigma"])
    assert plots.pairs(frame).axes[-1].get_xlabel() == "sigma"


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda p: p.plot(), "x_o is missing"),
        (lambda p: plots.pairs("draws"), "pass an array"),
        (lambda p: plots.pairs(np.zeros((5, 2)) + np.arange(5)[:, None], others=[p]), "dictionary"),
        (lambda p: plots.marginals({"a": p}), "x_o is missing"),
        (lambda p: plots.simulations(np.zeros((3, 2))), "th.Simulations"),
        (plots.tradeoff, "a quote or a plan"),
        (lambda p: plots.weights("none"), "Simulations or log weights"),
        (plots.predictive, "th.diagnostics.predictive"),
        (lambda p: plots.cost_residuals(th.diagnostics.weight_health(np.zeros(9))), "th.diagnostics.cost_check"),
        (lambda p: plots.calibration(np.zeros(3)), "sbc, coverage or tarp"),
    ],
)
def test_a_figure_says_what_it_takes(call, words, posterior):
    with pytest.raises(DataError, match=words):
        call(posterior)


def test_checks_are_found_in_a_diagnosis(sims):
    from thrifty.diagnostics import Diagnosis

    diagnosis = Diagnosis((th.diagnostics.weight_health(sims), *made_checks(sims)), ())
    assert len(plots.calibration(diagnosis).axes) == 1
    assert len(plots.predictive(diagnosis).axes) == 3


def made_checks(sims):
    posterior = th.ABC(PRIOR, quantile=0.2, adjust="none").fit(sims)
    return th.diagnostics.sbc(posterior, sims, pairs=100), th.diagnostics.predictive(posterior, sims, X_O)


def test_counts_are_bars_that_sum_to_their_weights(sims):
    check = made_checks(sims)[1]
    counts = plots.predictive(check).axes[1]
    shares = {round(bar.get_x() + bar.get_width() / 2): bar.get_height() for bar in counts.patches}
    weights = th.normalise(check.log_weights)
    for count, share in shares.items():
        assert share == pytest.approx(weights[check.x[:, 1] == count].sum(), abs=1e-12)
    assert min(shares) >= 0 and sum(shares.values()) > 0.98


def test_no_mass_below_zero(rng):
    values, weights = rng.gamma(0.7, size=2000), np.full(2000, 1 / 2000)
    ends = find_column_ends(values, weights, 0.1)
    assert ends[0] == 0.0
    grid = np.linspace(-1, values.max() + 1, 8000)
    curve = estimate_density(values, weights, grid, find_support(values))
    assert (curve[grid < 0] == 0).all() and np.trapezoid(curve, grid) == pytest.approx(1, abs=0.01)
    assert estimate_density(values, weights, grid)[grid < 0].max() > 0.01, "the mutant: no bound"
    assert find_column_ends(-values, weights)[0] < 0


def test_cost_before_and_after_a_plan(tmp_path):
    made = th.Campaign(tmp_path / "a", simulate, PRIOR, seed=4, cost="reported", unit="events")
    made.pilot(40, engine=th.Inline(), progress="quiet")
    before = len(th.Campaign.open(tmp_path / "a").session.settings().plans)
    figure = made.plot_cost()
    assert "events" in figure.axes[1].get_ylabel() and figure.axes[0].get_xlabel() == "infection_rate"
    assert len(made.session.settings().plans) == before == 0, "nothing is committed"
    made.plan(n=50)
    assert isinstance(th.Campaign.open(tmp_path / "a").plot_cost(), Figure)


def test_a_figure_of_many_parameters_says_what_it_leaves_out(rng):
    theta, x = rng.normal(size=(50, 6)), rng.normal(size=(50, 7))
    sims = th.Simulations.from_arrays(theta=theta, x=x)

    def words(figure):
        return [text.get_text() for text in figure.texts]

    assert "Shown: the first 4 of 6 parameters and the first 4 of 7 statistics; most=7 shows all." in words(sims.plot())
    assert not any("Shown:" in text for text in words(sims.plot(most=7)))
    assert len(sims.plot(most=7).axes) == 6 * 8
    assert find_overlaps(sims.plot()) == []


def test_a_report_in_one_line(campaign, tmp_path):
    path = campaign.report(tmp_path / "report.html")
    assert path.read_text().lstrip().lower().startswith("<!doctype html>") and "infection_rate" in path.read_text()


def test_a_notebook_shows_the_picture(sims):
    assert sims.plot()._repr_png_().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    "values", [[0, 2e-5, 4e-5], [1e6, 2e6], [0.25, 0.5], [-1, 0, 1], [12345, 12346], [1e-300, 2e-300]]
)
def test_ticks_are_written_exactly(values):
    assert [float(text) for text in format_ticks(values)] == pytest.approx(values, rel=1e-9)
    assert len(set(format_ticks(values))) == len(values)


@pytest.mark.parametrize(
    ("middle", "unit", "label"),
    [(4e-6, "s", "µs"), (4e-3, "s", "ms"), (1.0, "s", "s"), (300.0, "s", "min"), (2e4, "s", "h"), (3e5, "s", "d"),
     (2e7, "events", "events")],
)  # fmt: skip
@pytest.mark.parametrize("power", [0.02, 0.5, 4.0, 12.0])
def test_one_unit_and_one_way_of_numbers_on_a_cost_axis(middle, unit, label, power):
    cost = lambda theta: middle * np.exp(power * (theta[:, 0] - 1))  # noqa: E731
    cost.unit = unit
    one = plots.cost_surface(cost, th.Uniform(0, 2, names=["beta"])).axes[0]
    two = plots.cost_surface(cost, th.Uniform([0, 0], [2, 1], names=["beta", "gamma"])).axes[1]
    theta = np.linspace(0.1, 1.9, 50)[:, None]
    sims = th.Simulations(theta=theta, x=theta, log_weights=np.zeros(50), cost=cost(theta), unit=unit)
    for ax in (one, two, sims.plot().axes[-1]):
        ax.figure.draw_without_rendering()
        assert ax.get_ylabel().endswith(f"[{label}]")
        low, high = ax.get_ylim()
        seen = [t for t, at in zip(ax.get_yticklabels(), ax.get_yticks(), strict=True) if low <= at <= high]
        texts = [text.get_text() for text in seen if text.get_text()]
        assert len(texts) > 1 and not any("$" in text for text in texts)
        assert len({"e" in text for text in texts}) == 1, texts
        size = (high * low) ** 0.5 * {"min": 60, "h": 3600, "d": 86400, "ms": 1e-3, "µs": 1e-6}.get(label, 1)
        assert 0.3 < size / middle < 3
