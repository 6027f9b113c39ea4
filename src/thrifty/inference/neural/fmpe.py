"""Flow matching posterior estimation with importance weights: NPE whose density is a continuous flow.

    minimise over v   sum_i w_i |v(y_t, t, x_i) - (y_i - e)|^2 / sum_i w_i,     y_t = t y_i + (1 - t) e

with w = prior/proposal, y the parameters without bounds, e a standard normal and t uniform (`modules.flow_matching`).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from thrifty.errors import ConfigError, warn
from thrifty.inference.neural.npe import NPE
from thrifty.inference.neural.recipes import FlowMatching

if TYPE_CHECKING:
    import torch

    from thrifty.inference.neural.direct_posterior import DirectPosterior
    from thrifty.tables.simulations import Simulations


@dataclass(frozen=True, repr=False)
class FMPE(NPE):
    """Flow matching posterior estimation (Dax et al. 2023).

    A field is learned by regression instead of a density: any network will do, and large ones train fast. Draws and
    densities follow the field, some hundred network calls each. Under the same settings as `th.NPE`.

    Args:
        prior: The prior; anything `as_prior` reads.
        network: `th.FlowMatching()`, or sbi's `posterior_flow_nn(...)` and `posterior_score_nn(...)` (NPSE).
        embedding: As for `th.NPE`.
        correction: "weights" (each pair counts its weight in the loss) or "after".
        training: Settings of the loop.
        noise: As for `th.NPE`.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> theta = rng.standard_normal((300, 1))
        >>> sims = th.Simulations.from_arrays(theta=theta, x=theta + 0.5 * rng.standard_normal((300, 1)))
        >>> posterior = th.FMPE(th.Normal(0.0, 1.0), training=th.Training(max_epochs=10)).fit(sims, seed=0)
        >>> posterior.sample(100, [1.0], seed=0).shape
        (100, 1)
    """

    network: Any = field(default_factory=FlowMatching)

    @property
    def method(self) -> Literal["npe", "fmpe"]:
        """Name in files."""
        return "fmpe"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.correction == "atomic":
            raise ConfigError(
                'correction="atomic" needs the density of ten parameters in every step, which a flow must integrate',
                code="bad-setting",
                fix='correction="weights" or "after", or th.NPE',
            )

    def fit(self, simulations: Simulations, seed: int = 0) -> DirectPosterior:
        """Train on the valid simulations; warns where the network is a score, which is learned less exactly.

        Raises:
            DataError, WeightError, ConfigError: The table or the settings cannot be used; nothing was trained.
        """
        posterior = super().fit(simulations, seed)
        if getattr(posterior.trained.net.density, "learns_score", False):
            warn(
                "[poor-training] sbi's score estimator is learned less exactly from few runs than a field: most of its"
                " training is at noise far below the width of a posterior, and says nothing about its place. Use"
                " th.FlowMatching() or sbi's posterior_flow_nn(); or small steps, Training(learning_rate=5e-4,"
                " batch=100, patience=40), and th.diagnose"
            )
        return posterior

    def _choose_loss(self, *, sets: bool) -> Any:
        return _set_field_loss if sets else _field_loss


def _field_loss(net: Any, rows: tuple[torch.Tensor, ...], g: torch.Generator) -> torch.Tensor:
    return net.field_loss(rows[0], rows[1], g)


def _set_field_loss(net: Any, rows: tuple[torch.Tensor, ...], g: torch.Generator) -> torch.Tensor:
    from thrifty.inference.neural.npe import choose_members

    return net.field_loss(rows[0], choose_members(rows[1], g), g)
