"""What posteriors are made of, and `load_posterior`.

Neural methods return `inference.direct.DirectPosterior` (NPE), `inference.potential.PotentialPosterior` (NLE, NRE) or
`inference.ensemble.EnsemblePosterior`: all with `sample(n, x_o, seed)`, `draw` (the same with its quality),
`log_prob(theta, x_o)`, `map(x_o)` and `save(path)`. Torch is loaded by use.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt

from thrifty.inference.checks import Reach
from thrifty.inference.neural.standardise import Frame
from thrifty.inference.neural.training_settings import TrainingCurve
from thrifty.types import Array

if TYPE_CHECKING:
    from thrifty.types import Posterior


@dataclass(frozen=True)
class Sampled:
    """Posterior draws and how they came about.

    Attributes:
        samples: Draws (n, p).
        acceptance: Share of network draws inside the prior's support, or of accepted moves.
        local_ess: Effective share of network draws under the weights (`correction="after"`), else 1.
        ess: Effective draws (p,) of a Markov chain; n for independent draws.
        rhat: Convergence ratio (p,) of a Markov chain; 1 for independent draws.
    """

    samples: Array
    acceptance: float
    local_ess: float
    ess: Array
    rhat: Array


@dataclass(frozen=True, eq=False)
class Trained:
    """A trained network, what it was made of and how to speak to it."""

    method: Literal["npe", "nle", "nre"]
    net: Any = field(repr=False)
    network: Any
    embedding: Any
    frame: Frame = field(repr=False)
    reach: Reach = field(repr=False)
    curve: TrainingCurve = field(repr=False)
    notes: tuple[str, ...] = ()
    kept: npt.NDArray[np.int64] | None = field(default=None, repr=False)  # fingerprints of runs that did not train it


def load_posterior(path: str | Path, *, prior: Any = None, network: Any = None, embedding: Any = None) -> Posterior:
    """Read a posterior that `save` wrote; nothing in the file is executed.

    Args:
        path: The file.
        prior: The prior, needed when it could not be written as plain numbers.
        network: The sbi builder, needed when the network was sbi's.
        embedding: The module, needed when the embedding was the user's own.

    Raises:
        DataError: bad-file, newer-version, or code-not-saved where something must be given.
    """
    from thrifty.inference import table_files

    if table_files.kind_of(Path(path)) in table_files.KINDS:  # ABC and its kin: no torch needed
        return table_files.load(Path(path), prior=prior)
    from thrifty.inference.neural.posterior_files import load

    return load(Path(path), prior=prior, network=network, embedding=embedding)
