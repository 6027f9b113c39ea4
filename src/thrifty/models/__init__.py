"""The paper's five simulators and one whose answers are known exactly.

| model | parameters | cost grows with | reference |
|---|---|---|---|
| `Gamma` | shape | shape, linearly | posterior in closed form |
| `HomogeneousSIR` | beta | outbreak size × beta | final-size theory |
| `TemporalSIR` | beta, gamma | outbreak size | final-size theory |
| `BernoulliSIR` | beta, gamma, edge | edges that can carry an infection | branching theory |
| `Radio` | gain, reverberation_time, arrival_rate, noise_variance | arrival rate, linearly | mean power exact |
| `GaussianToy` | theta | exp(a·theta) | posterior and proposals in closed form |

All have one interface (`thrifty.models.base.Model`): `prior`, `simulate(theta, rng)`, `run(theta, rng)` with the
cost of the run, `simulate_many(thetas, seed)`, `theta_true`, `observed(seed)`. The compiled ones need
numba: `pip install "thrifty[models]"`.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from thrifty.models.base import Model
    from thrifty.models.bernoulli_sir import BernoulliSIR
    from thrifty.models.gamma import Gamma
    from thrifty.models.gaussian import GaussianToy
    from thrifty.models.homogeneous_sir import HomogeneousSIR
    from thrifty.models.radio import Radio
    from thrifty.models.temporal_sir import TemporalSIR

_HOME = {
    "BernoulliSIR": "bernoulli_sir",
    "Gamma": "gamma",
    "GaussianToy": "gaussian",
    "HomogeneousSIR": "homogeneous_sir",
    "Model": "base",
    "Radio": "radio",
    "TemporalSIR": "temporal_sir",
}

__all__ = ["BernoulliSIR", "Gamma", "GaussianToy", "HomogeneousSIR", "Model", "Radio", "TemporalSIR"]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'thrifty.models' has no attribute {name!r}; it has {', '.join(__all__)}")
    value = getattr(import_module(f"thrifty.models.{_HOME[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(set(globals()) | set(__all__))
