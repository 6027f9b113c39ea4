"""What a page takes for granted: names that its snippets use without making them."""

SETTINGS = {
    "campaign.md": """
def simulate(theta, rng):
    return th.Output([theta[0] + rng.normal(), theta[1] * rng.random()], cost=float(np.exp(2 * theta[0])))

prior = th.Uniform([0, 1], [1, 3], names=["beta", "gamma"])
""",
    "diagnostics.md": """
_rng = np.random.default_rng(0)
prior = th.Uniform([0, 0], [2, 2], names=["a", "b"])
_draws = th.CostAware(prior, lambda t: np.exp(t[:, 0])).sample(900, 0)
_x = _draws.theta + 0.3 * _rng.normal(size=(900, 2))
_runs = th.Simulations.from_arrays(theta=_draws.theta, x=_x, log_weights=_draws.log_weights, names=prior.names)
simulations, held_out, x_o = _runs[:600], _runs[600:], [1.0, 1.0]
posterior = th.ABC(prior, quantile=0.1).fit(simulations)
x, y = _rng.normal(size=(120, 2)), _rng.normal(size=(120, 2))
x_weights = y_weights = np.full(120, 1 / 120)
""",
    "neural.md": """
prior = th.Uniform([0, 0], [2, 2], names=["a", "b"])
_draws = th.CostAware(prior, lambda t: np.exp(t[:, 0])).sample(400, 0)
_x = _draws.theta + 0.3 * np.random.default_rng(0).normal(size=(400, 2))
simulations = th.Simulations.from_arrays(theta=_draws.theta, x=_x, log_weights=_draws.log_weights, names=prior.names)
x_o, theta = [1.0, 1.0], [[1.0, 1.0]]
""",
    "answers.md": """
_rng = np.random.default_rng(0)

def _table(prior, sd):
    draws = th.CostAware(prior, lambda t: np.exp(t[:, 0])).sample(4000, 0)
    x = draws.theta + sd * _rng.normal(size=(4000, 2))
    return th.Simulations.from_arrays(theta=draws.theta, x=x, log_weights=draws.log_weights, names=prior.names)

prior = prior_a = prior_b = th.Uniform([0, 0], [2, 2], names=["beta", "gamma"])
sims_a, sims_b, x_o = _table(prior, 0.3), _table(prior, 0.6), np.array([1.0, 1.2])
simulations = sims_a[:1000]
""",
    "abc.md": """
prior = th.Uniform([0, 0], [2, 2], names=["a", "b"])

def simulator(theta, rng):
    return th.Output(theta + 0.3 * rng.normal(size=2), cost=float(np.exp(theta[0])))

_draws = th.CostAware(prior, lambda t: np.exp(t[:, 0])).sample(5000, 0)
_x = _draws.theta + 0.3 * np.random.default_rng(0).normal(size=(5000, 2))
sims = th.Simulations.from_arrays(theta=_draws.theta, x=_x, log_weights=_draws.log_weights, names=prior.names)
x_o, theta = [1.0, 1.0], [[1.0, 1.0]]
""",
}
