"""Networks of densities and ratios, and their evaluation; the only module that knows zuko and sbi.

Two kinds: a conditional density log q(y | c) with a sampler (flows, mixtures, sbi's estimators), and a ratio
f(y, c). Both see standardised float32 numbers (`standardise`). Everything random takes a generator; the global
stream and the threads of torch are left as they were.
"""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
import torch
import zuko
from torch import Tensor, nn

from thrifty.errors import ConfigError
from thrifty.inference.neural.modules.head_start import Shift
from thrifty.inference.neural.modules.members import ACTIVATIONS, DiscreteHead, MembersNet, MixedNet, build_mlp
from thrifty.inference.neural.recipes import (
    MAF,
    NSF,
    AutoregressiveMixture,
    Classifier,
    FlowMatching,
    MixtureDensity,
    is_recipe,
)
from thrifty.types import Array

ROWS_PER_EVALUATION = 20_000  # bounds memory, still large enough to be fast


@contextlib.contextmanager
def seed_torch(seed: int) -> Iterator[None]:
    """Seed torch's global stream inside the block and restore it after."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        yield


@contextlib.contextmanager
def use_one_thread() -> Iterator[None]:
    """Run on one thread inside the block: with a busy second core two were 90 times slower than one."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@contextlib.contextmanager
def drop_subnormals() -> Iterator[None]:
    """Round numbers below 1e-38 to zero inside the block: in gradients they are zero in effect, and slow.

    Some processors take a hundred cycles for one of them. NRE on 1,000 runs of two moons trained in 2.6 instead of
    9.6 CPU s on an Intel Xeon at 2.5 GHz, NPE in 10.6 instead of 12.1, with the same draws to eight digits.
    """
    before = float(torch.tensor(1e-38) * 0.1) == 0.0  # torch sets this, and does not tell it
    torch.set_flush_denormal(True)
    try:
        yield
    finally:
        torch.set_flush_denormal(before)


def choose_device(name: str) -> torch.device:
    """Return the device of a name, or the best one for "auto".

    Raises:
        ConfigError: bad-setting, the device is not there.

    Example:
        >>> choose_device("cpu").type
        'cpu'
    """
    there = ["cpu"] + ["cuda"] * torch.cuda.is_available() + ["mps"] * torch.backends.mps.is_available()
    if name == "auto":
        return torch.device("cuda" if "cuda" in there else there[-1])
    device = torch.device(name)
    if device.type not in there or (device.index or 0) >= max(torch.cuda.device_count(), 1):
        raise ConfigError(
            f"device {name!r} is not available: torch {torch.__version__} finds {', '.join(there)}"
            + (f" ({torch.cuda.device_count()} of cuda)" if "cuda" in there else ""),
            code="bad-setting",
            fix='Training(device="auto") takes what is there; for cuda install a torch that is built with it',
        )
    return device


def make_generator(seed: int) -> torch.Generator:
    """Return a generator that nothing else uses."""
    return torch.Generator().manual_seed(seed)


@torch.no_grad()
def evaluate_rows(function: Callable[..., Tensor], *tables: np.ndarray) -> Array:
    """Evaluate a function over rows of float32 tables, in chunks, on one thread; (n,) float64."""
    with use_one_thread():
        parts = [
            function(*(_as_tensor(t[i : i + ROWS_PER_EVALUATION]) for t in tables)).numpy()
            for i in range(0, len(tables[0]), ROWS_PER_EVALUATION)
        ]
    return np.concatenate(parts).astype(np.float64) if parts else np.zeros(0)


def differentiate_rows(function: Callable[[Tensor], Tensor], table: np.ndarray) -> tuple[Array, Array]:
    """Evaluate a function over rows of a float32 table (n, p), and its gradient: (n,) and (n, p) float64."""
    values, slopes = [np.zeros(0)], [np.zeros((0, table.shape[1]))]
    with use_one_thread(), torch.enable_grad():
        for i in range(0, len(table), ROWS_PER_EVALUATION):
            rows = _as_tensor(table[i : i + ROWS_PER_EVALUATION]).requires_grad_()
            value = function(rows)
            slopes.append(torch.autograd.grad(value.sum(), rows)[0].numpy().astype(np.float64))
            values.append(value.detach().numpy().astype(np.float64))
    return np.concatenate(values), np.concatenate(slopes)


def _as_tensor(table: np.ndarray) -> Tensor:
    """Make a tensor of the rows; one row repeated stays one row in memory."""
    if len(table) > 1 and table.strides[0] == 0:
        return torch.from_numpy(np.array(table[:1])).expand(table.shape)
    return torch.from_numpy(np.ascontiguousarray(table)) if table.flags.writeable else torch.from_numpy(table.copy())


@torch.no_grad()
def draw_rows(net: DensityNet, n: int, c: np.ndarray, g: torch.Generator) -> Array:
    """Draw (n, p) given one row c (1, ...), or (m n, p), n for each of m rows."""
    with use_one_thread():
        return net.sample(n, torch.from_numpy(c), g).numpy().astype(np.float64)


class FlowNet(nn.Module):
    """A zuko flow over y (b, p) given c (b, e)."""

    def __init__(self, recipe: NSF | MAF, features: int, context: int) -> None:
        super().__init__()
        self.features = features
        layer = partial(
            zuko.flows.MaskedAutoregressiveTransform,
            features=features,
            context=context,
            hidden_features=recipe.hidden,
            activation=ACTIVATIONS[recipe.activation],
        )
        orders: Any = [torch.arange(features), torch.arange(features).flip(0)]
        if isinstance(recipe, NSF):
            shapes = [(recipe.bins,), (recipe.bins,), (recipe.bins - 1,)]
            spline = partial(layer, univariate=zuko.transforms.MonotonicRQSTransform, shapes=shapes)
            layers = [layer(order=orders[0]), *(spline(order=orders[i % 2]) for i in range(recipe.transforms))]
        else:
            layers = [layer(order=orders[i % 2]) for i in range(recipe.transforms)]
        base = zuko.lazy.UnconditionalDistribution(
            zuko.distributions.DiagNormal, torch.zeros(features), torch.ones(features), buffer=True
        )
        self.flow = zuko.flows.Flow(layers, base)

    def log_prob(self, y: Tensor, c: Tensor) -> Tensor:
        """Log density (b,)."""
        return self.flow(c).log_prob(y)

    def sample(self, c: Tensor, g: torch.Generator) -> Tensor:
        """One draw per row of c (b, e)."""
        noise = torch.randn(len(c), self.features, generator=g)
        return self.flow(c).transform.inv(noise)


class MixtureNet(nn.Module):
    """A mixture of Gaussians over y (b, p) given c (b, e); each precision has a triangular root."""

    def __init__(self, recipe: MixtureDensity, features: int, context: int) -> None:
        super().__init__()
        self.features, self.components = features, recipe.components
        self.register_buffer("below", torch.tril(torch.ones(features, features), -1), persistent=False)
        outputs = recipe.components * (1 + 2 * features + features * features)
        self.net = build_mlp(context, recipe.hidden, outputs, recipe.activation)

    def _parts(self, c: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        k, p = self.components, self.features
        out = self.net(c).view(-1, k, 1 + 2 * p + p * p)
        shares = torch.log_softmax(out[..., 0], -1)
        means, log_diagonal = out[..., 1 : 1 + p], 7 * torch.tanh(out[..., 1 + p : 1 + 2 * p] / 7)
        root = out[..., 1 + 2 * p :].view(-1, k, p, p) * self.below + torch.diag_embed(torch.exp(log_diagonal))
        return shares, means, log_diagonal, root

    def log_prob(self, y: Tensor, c: Tensor) -> Tensor:
        """Log density (b,)."""
        shares, means, log_diagonal, root = self._parts(c)
        noise = (root @ (y[:, None] - means)[..., None])[..., 0]
        each = -0.5 * (noise**2).sum(-1) + log_diagonal.sum(-1) - 0.5 * self.features * np.log(2 * np.pi)
        return torch.logsumexp(shares + each, -1)

    def sample(self, c: Tensor, g: torch.Generator) -> Tensor:
        """One draw per row of c (b, e)."""
        shares, means, _, root = self._parts(c)
        which = torch.multinomial(shares.exp(), 1, generator=g)[:, 0]
        rows = torch.arange(len(c))
        noise = torch.randn(len(c), self.features, 1, generator=g)
        return means[rows, which] + torch.linalg.solve_triangular(root[rows, which], noise, upper=False)[..., 0]


class SbiNet(nn.Module):
    """An sbi density estimator, used through its public `loss`, `log_prob` and `sample`."""

    def __init__(self, estimator: nn.Module) -> None:
        super().__init__()
        self.estimator = estimator

    def log_prob(self, y: Tensor, c: Tensor) -> Tensor:
        """Log density (b,)."""
        return -self.estimator.loss(y, condition=c)  # type: ignore[operator]

    def sample(self, c: Tensor, g: torch.Generator) -> Tensor:
        """One draw per row of c (b, e)."""
        seed = int(torch.randint(2**62, (1,), generator=g))
        with seed_torch(seed):
            if len(c) > 1 and bool((c == c[0]).all()):
                return self.estimator.sample((len(c),), condition=c[:1])[:, 0]  # type: ignore[operator]
            return self.estimator.sample((1,), condition=c)[0]  # type: ignore[operator]


_DENSITIES: dict[type, Callable[[Any, int, int], nn.Module]] = {
    NSF: FlowNet,
    MAF: FlowNet,
    AutoregressiveMixture: MembersNet,
    MixtureDensity: MixtureNet,
}


class DensityNet(nn.Module):
    """log q(y | embedding(c))."""

    def __init__(self, density: nn.Module, embedding: nn.Module | None = None) -> None:
        super().__init__()
        self.density, self.embedding = density, embedding or nn.Identity()
        self.shift: Shift | None = None
        self.by_output = False  # each number's networks keep their own best epoch, not each member's together

    @property
    def parts(self) -> int:
        """How many parts have a best epoch of their own: the members, or each number of each."""
        return self.members * self.density.features if self.by_output else self.members  # type: ignore[operator]

    @property
    def members(self) -> int:
        """How many densities learn side by side."""
        return self.density.members if isinstance(self.density, MembersNet | MixedNet) else 1

    def log_prob(self, y: Tensor, c: Tensor) -> Tensor:
        """Log density (b,); a condition that is one row repeated is embedded once."""
        repeated = len(c) > 1 and c.stride(0) == 0
        context = self.embedding(c[:1]).expand(len(c), -1) if repeated else self.embedding(c)
        if self.shift is None:
            return self.density.log_prob(y, context)  # type: ignore[operator]
        place, log_width = self.shift(c)
        residual = (y - place) / log_width.exp()
        return self.density.log_prob(residual, context) - log_width.sum(-1)  # type: ignore[operator]

    def field_loss(self, y: Tensor, c: Tensor, g: torch.Generator) -> Tensor:
        """Error (b,) of a field on the way from noise to y (b, p), given c (b, ...)."""
        if self.shift is not None:
            place, log_width = self.shift(c)
            y = (y - place) / log_width.exp()
        return self.density.loss(y, self.embedding(c), g)  # type: ignore[operator]

    def log_prob_atoms(self, y: Tensor, c: Tensor) -> Tensor:
        """Log density (members, b, k) of k points y (b, k, p) given c (b, ...), without the shift's log width."""
        b, k, p = y.shape
        context = self.embedding(c).repeat_interleave(k, 0)
        if self.shift is not None:
            place, log_width = self.shift(c)
            y = (y - place[:, None]) / log_width.exp()[:, None]
        y = y.reshape(b * k, p)
        if isinstance(self.density, MembersNet | MixedNet):
            return self.density.log_prob_members(y, context).unflatten(1, (b, k))
        return self.density.log_prob(y, context).view(1, b, k)  # type: ignore[operator]

    def log_prob_members(self, y: Tensor, c: Tensor) -> Tensor:
        """Log density (members, b) of each member: what is maximised, so that each learns by itself."""
        value = self.log_prob_atoms(y[:, None], c)[..., 0]
        return value if self.shift is None else value - self.shift(c)[1].sum(-1)

    def log_prob_parts(self, y: Tensor, c: Tensor) -> Tensor:
        """What each part (parts, b) adds to its member's log density."""
        return self.density.log_prob_outputs(y, c) if self.by_output else self.log_prob_members(y, c)  # type: ignore[operator]

    def sample(self, n: int, c: Tensor, g: torch.Generator) -> Tensor:
        """Draw n (m n, p) given each row of c (m, ...)."""
        context = self.embedding(c)
        context = context.expand(n, -1) if len(c) == 1 else context.repeat_interleave(n, 0)
        draws = self.density.sample(context, g)  # type: ignore[operator]
        if self.shift is None:
            return draws
        place, log_width = (part if len(c) == 1 else part.repeat_interleave(n, 0) for part in self.shift(c))
        return place + log_width.exp() * draws


class RatioNet(nn.Module):
    """f(theta, x): residual blocks on theta and the embedding of x together."""

    def __init__(self, recipe: Classifier, features: int, context: int, embedding: nn.Module | None = None) -> None:
        super().__init__()
        self.embedding = embedding or nn.Identity()
        self.first = nn.Linear(features + context, recipe.hidden)
        self.blocks = nn.ModuleList(
            build_mlp(recipe.hidden, (recipe.hidden,), recipe.hidden, recipe.activation) for _ in range(recipe.blocks)
        )
        self.act = ACTIVATIONS[recipe.activation]()
        self.last = nn.Linear(recipe.hidden, 1)

    def forward(self, theta: Tensor, context: Tensor) -> Tensor:
        """Log ratio (b,) of theta (b, p) and embedded x (b, e)."""
        h = self.first(torch.cat([theta, context], -1))
        for block in self.blocks:
            h = h + block(self.act(h))
        return self.last(self.act(h))[..., 0]


def log_ratio(net: RatioNet | SbiRatio, theta: Tensor, x: Tensor) -> Tensor:
    """Log ratio (b,) at pairs; where all rows of x are one expanded row, it is embedded once."""
    first = net.embedding(x[:1]) if x.stride(0) == 0 or len(x) == 1 else None
    context = net.embedding(x) if first is None else first.expand(len(theta), -1)
    return net(theta, context)


class SbiRatio(nn.Module):
    """A ratio estimator of sbi, called (theta, x)."""

    def __init__(self, estimator: nn.Module) -> None:
        super().__init__()
        self.estimator, self.embedding = estimator, nn.Identity()

    def forward(self, theta: Tensor, context: Tensor) -> Tensor:
        """Log ratio (b,)."""
        return self.estimator(theta, context).reshape(len(theta))


def build_density(
    network: Any,
    y: Tensor,
    c: Tensor,
    *,
    context: int,
    embedding: nn.Module | None = None,
    likelihood: bool = False,
    field: bool = False,
    states: tuple[int, ...] = (),
) -> DensityNet:
    """Build a density of y (n, p) given c: from a recipe, or sbi's, whose builders are called (theta, x) always.

    `states` (p,) says how many values each discrete column of y has, 0 for numbers; empty where all are numbers.

    Raises:
        ConfigError: bad-setting, no network, or a field where a density is learned, or the other way round.
    """
    features, density = y.shape[1], None
    if any(states):
        density = _build_mixed(network, states, context)
    elif type(network) in _DENSITIES:
        density = _DENSITIES[type(network)](network, features, context)
    elif isinstance(network, FlowMatching):
        from thrifty.inference.neural.modules.flow_matching import FlowMatchingNet

        density = FlowMatchingNet(network, features, context)
    elif isinstance(network, nn.Module) and hasattr(network, "loss"):
        density = _wrap_sbi(copy.deepcopy(network), features)
    elif callable(network) and not is_recipe(network) and not isinstance(network, type):
        with torch.no_grad():
            shown = c if embedding is None else embedding(c[:1000])
        pair = (y[: len(shown)], shown)
        estimator: Any = network(*(reversed(pair) if likelihood else pair))
        density = _wrap_sbi(estimator, features) if hasattr(estimator, "loss") else None
    if density is None:
        raise ConfigError(
            f"network must be a density recipe or an sbi estimator, got {network!r}"[:200],
            code="bad-setting",
            fix='th.NSF(), th.MAF(), th.MixtureDensity(), or sbi\'s posterior_nn("maf")',
        )
    if field != getattr(density, "is_field", False):
        raise ConfigError(
            f"th.FMPE learns a field, and {network!r} is a density"[:200]
            if field
            else f"{network!r} is a field, learned by th.FMPE alone"[:200],
            code="bad-setting",
            fix="th.FMPE(prior, network=th.FlowMatching()), or th.NPE(prior)",
        )
    return DensityNet(density, embedding)


def _build_mixed(network: Any, states: tuple[int, ...], context: int) -> MixedNet:
    """Build the probabilities of the discrete columns, and the density of the others given them."""
    if not is_recipe(network) or isinstance(network, FlowMatching):
        raise ConfigError(
            f"network {type(network).__name__} cannot learn whole numbers and categories",
            code="bad-setting",
            fix="th.NPE with th.AutoregressiveMixture() (its default), th.NSF(), th.MAF() or th.MixtureDensity()",
        )
    members = network.members or 1 if isinstance(network, AutoregressiveMixture) else 1
    head = DiscreteHead(tuple(count for count in states if count), context, network.hidden, members)
    free, inner = states.count(0), None
    if free:
        some = torch.zeros(1, free), torch.zeros(1, context + sum(states))
        inner = build_density(network, *some, context=context + sum(states)).density
    return MixedNet(head, inner, states)


def _wrap_sbi(estimator: Any, features: int) -> nn.Module:
    if not hasattr(estimator, "ode_fn"):
        return SbiNet(estimator)
    from thrifty.inference.neural.modules.flow_matching import SbiFieldNet

    return SbiFieldNet(estimator, features)


def build_ratio(
    network: Any, theta: Tensor, x: Tensor, *, context: int, embedding: nn.Module | None = None
) -> RatioNet | SbiRatio:
    """Build a log ratio f(theta, x): from a recipe or from sbi's `classifier_nn(...)`."""
    if isinstance(network, Classifier):
        return RatioNet(network, theta.shape[1], context, embedding)
    if callable(network) and not is_recipe(network) and not isinstance(network, type) and embedding is None:
        estimator: Any = network(theta, x)
        return SbiRatio(estimator)
    raise ConfigError(
        f"network must be a ratio recipe, got {network!r}"[:200],
        code="bad-setting",
        fix='th.Classifier(), or sbi\'s classifier_nn("resnet")',
    )
