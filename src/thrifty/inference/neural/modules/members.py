"""Perceptrons, and several densities trained at once: autoregressive mixtures, all slices of batched products.

    q(y | c) = 1/K sum_k q_k(y | c),     u = (y - m_k) / s_k,     q_k = prod_j sum_i a_ji N(u_j; mean_ji, sd_ji) / s_j

m, s (one affine autoregressive layer, y_1 first) and a, mean, sd (y_p first; `forward` swaps the two orders) are
perceptrons of c and of the numbers before j: one for each member and each j, so that a step over K p of them is a few
large products. The members start at different numbers and see the same rows; their mean is steadier than any of them,
at the CPU time of one spline flow.

Discrete numbers d come first: q(d, y | c) = prod_j softmax(f_j(c, d_<j))[d_j] q(y | c, d), with d as zeros and ones.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn

from thrifty.inference.neural.recipes import AutoregressiveMixture

ACTIVATIONS: dict[str, Callable[[], nn.Module]] = {"silu": nn.SiLU, "relu": nn.ReLU, "elu": nn.ELU, "tanh": nn.Tanh}
MAX_LOG_SCALE = 5.0  # of a component and of the affine layer: a width of 0.7 % of the frame's, times as much again
ROWS_PER_PRODUCT = 400  # what the cache holds: three times as many rows a second as with 20,000 at once
_LOG_2PI = math.log(2 * math.pi)


def build_mlp(first: int, hidden: tuple[int, ...], last: int, activation: str = "silu") -> nn.Sequential:
    """Linear layers with an activation between them."""
    widths = (first, *hidden)
    layers: list[nn.Module] = []
    for a, b in itertools.pairwise(widths):
        layers += [nn.Linear(a, b), ACTIVATIONS[activation]()]
    return nn.Sequential(*layers, nn.Linear(widths[-1], last))


class Conditionals(nn.Module):
    """K p perceptrons: the one for member k and place j sees c (e,) and the places before j, and gives `outputs`."""

    def __init__(
        self, recipe: AutoregressiveMixture, features: int, context: int, outputs: int, *, backward: bool
    ) -> None:
        super().__init__()
        members = recipe.members or 1
        self.members, self.features, self.act = members, features, ACTIVATIONS[recipe.activation]()
        before = torch.tril(torch.ones(features, features), -1)
        before = before.T.contiguous() if backward else before
        seen = torch.cat([before, torch.ones(features, context)], 1)  # (p, p + e)
        self.register_buffer("seen", seen.repeat(members, 1)[:, :, None], persistent=False)
        widths = (features + context, *recipe.hidden, outputs)
        fans = [seen.sum(1).clamp(min=1).repeat(members)] + [torch.full((members * features,), w) for w in widths[1:]]
        self.weights, self.biases = nn.ParameterList(), nn.ParameterList()
        for first, last, fan in zip(widths[:-1], widths[1:], fans, strict=False):
            bound = fan.float().rsqrt()[:, None, None]
            self.weights.append(nn.Parameter((2 * torch.rand(members * features, first, last) - 1) * bound))
            self.biases.append(nn.Parameter((2 * torch.rand(members * features, 1, last) - 1) * bound))

    def forward(self, y: Tensor, c: Tensor, place: int | None = None) -> Tensor:
        """Return (k, p, b, outputs), of one place (k, 1, b, outputs), from y (k or 1, b, p) and c (k or 1, b, e)."""
        rows = slice(None) if place is None else slice(place, None, self.features)
        count = self.features if place is None else 1
        first, p = (self.weights[0] * self.seen)[rows], self.features
        h = self.act(self._multiply(y, first[:, :p]) + self._multiply(c, first[:, p:]) + self.biases[0][rows])
        for weight, bias in list(zip(self.weights, self.biases, strict=True))[1:-1]:
            h = self.act(torch.baddbmm(bias[rows], h, weight[rows]))
        out = torch.baddbmm(self.biases[-1][rows], h, self.weights[-1][rows])
        return out.unflatten(0, (self.members, count))

    @torch.no_grad()
    def keep(self, kept: Sequence[int]) -> None:
        """Drop all members but these."""
        for values in (self.weights, self.biases):
            for i, value in enumerate(values):
                values[i] = nn.Parameter(value.unflatten(0, (self.members, -1))[list(kept)].flatten(0, 1))
        self.members = len(kept)
        self.seen = self.seen[: self.members * self.features]

    def _multiply(self, rows: Tensor, weight: Tensor) -> Tensor:
        """Multiply rows (1, b, f), or each member's own (k, b, f), by the slices (k p, f, h)."""
        if len(rows) == 1:
            return torch.matmul(rows, weight)
        return torch.matmul(rows[:, None], weight.unflatten(0, (self.members, -1))).flatten(0, 1)


class MembersNet(nn.Module):
    """The mean of K densities over y (b, p) given c (b, e)."""

    def __init__(self, recipe: AutoregressiveMixture, features: int, context: int) -> None:
        super().__init__()
        self.features, self.members, self.components = features, recipe.members or 1, recipe.components
        self.forward_order = bool(recipe.forward)
        self.mixture = Conditionals(recipe, features, context, 3 * recipe.components, backward=not recipe.forward)
        self.affine = Conditionals(recipe, features, context, 2, backward=self.forward_order) if recipe.affine else None
        with torch.no_grad():
            last = self.mixture.biases[-1]
            k = recipe.components
            last[..., k : 2 * k] = 1.5 * torch.randn_like(last[..., k : 2 * k])  # components begin apart
            if self.affine is not None:
                self.affine.weights[-1].mul_(0.1)
                self.affine.biases[-1].zero_()

    def log_prob(self, y: Tensor, c: Tensor) -> Tensor:
        """Log density (b,) of the mean of the members, a few hundred rows at a time."""
        blocks = zip(y.split(ROWS_PER_PRODUCT), c.split(ROWS_PER_PRODUCT), strict=True)
        each = torch.cat([self.log_prob_members(*block) for block in blocks], 1)
        return torch.logsumexp(each, 0) - math.log(self.members)

    def log_prob_members(self, y: Tensor, c: Tensor) -> Tensor:
        """Log density (k, b) of each member; c may be one row for all of y."""
        density, log_scale = self._log_parts(y, c)
        return density.sum(1) - log_scale.sum(-1)

    def log_prob_outputs(self, y: Tensor, c: Tensor) -> Tensor:
        """Return what the networks of each member and number add (k p, b) to its log density."""
        density, log_scale = self._log_parts(y, c)
        return (density - log_scale.transpose(1, 2)).flatten(0, 1)

    def _log_parts(self, y: Tensor, c: Tensor) -> tuple[Tensor, Tensor]:
        """Return log densities of u (k, p, b) and log scales of the affine layer (k, b, p), or a zero without one."""
        c = (c[:1] if len(c) > 1 and c.stride(0) == 0 else c)[None]
        u, log_scale = y[None], torch.zeros(1, 1, 1)
        if self.affine is not None:
            place, log_scale = _bounded(self.affine(u, c).transpose(1, 2))  # each (k, b, p)
            u = (u - place) * torch.exp(-log_scale)
        shares, means, log_scales = self._components(self.mixture(u, c))
        each = (u.expand(self.members, -1, -1).transpose(1, 2)[..., None] - means) * torch.exp(-log_scales)
        density = torch.logsumexp(shares - 0.5 * each**2 - log_scales, -1) - 0.5 * _LOG_2PI
        return density, log_scale

    def keep(self, kept: Sequence[int]) -> None:
        """Drop all members but these, by their numbers."""
        self.members = len(kept)
        for part in (self.mixture, self.affine):
            if part is not None:
                part.keep(kept)

    def sample(self, c: Tensor, g: torch.Generator) -> Tensor:
        """Draw once per row of c (b, e), each row from a member chosen at random."""
        member = torch.randint(self.members, (len(c),), generator=g)
        counts = torch.bincount(member, minlength=self.members)
        place = torch.arange(int(counts.max()) if len(c) else 0)[None]
        used = place < counts[:, None]  # (k, longest): rows of one member side by side, padded by its first
        start = (torch.cumsum(counts, 0) - counts)[:, None]
        rows = torch.argsort(member, stable=True)[torch.where(used, start + place, 0)]
        repeated = len(c) > 1 and c.stride(0) == 0
        draws = self._sample_members(c[None, :1] if repeated else c[rows], rows.shape[1], g)
        out = torch.empty(len(c), self.features)
        out[rows[used]] = draws[used]
        return out

    def _sample_members(self, c: Tensor, n: int, g: torch.Generator) -> Tensor:
        """Draw (k, n, p), each member its own, given c (1, 1, e) or (k, n, e)."""
        u = torch.zeros(self.members, n, self.features)
        places = range(self.features)
        for j in places if self.forward_order else reversed(places):
            shares, means, log_scales = self._components(self.mixture(u, c, j)[:, 0])
            gumbel = -torch.log(-torch.log(torch.rand(shares.shape, generator=g).clamp(1e-20, 1 - 1e-7)))
            which = torch.argmax(shares + gumbel, -1, keepdim=True)
            noise = torch.randn(self.members, n, generator=g)
            u[..., j] = (means.gather(-1, which) + log_scales.gather(-1, which).exp() * noise[..., None])[..., 0]
        if self.affine is None:
            return u
        y = torch.zeros_like(u)
        for j in reversed(places) if self.forward_order else places:
            place, log_scale = _bounded(self.affine(y, c, j)[:, 0])
            y[..., j] = place + u[..., j] * torch.exp(log_scale)
        return y

    def _components(self, out: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Split the outputs (..., 3 m) into log shares, means and log sds (..., m)."""
        logits, means, log_scales = out.split(self.components, -1)
        return torch.log_softmax(logits, -1), means, MAX_LOG_SCALE * torch.tanh(log_scales / MAX_LOG_SCALE)


def _bounded(out: Tensor) -> tuple[Tensor, Tensor]:
    """Split the outputs (..., 2) of the affine layer into place and log scale."""
    return out[..., 0], MAX_LOG_SCALE * torch.tanh(out[..., 1] / MAX_LOG_SCALE)


class DiscreteHead(nn.Module):
    """Probabilities of several discrete numbers, one after the other: K perceptrons for each, averaged.

    Args:
        counts: Number of values of each; they are coded 0, 1, ...
        context: Size of the condition.
        hidden: Widths of the hidden layers.
        members: K.
    """

    def __init__(self, counts: tuple[int, ...], context: int, hidden: tuple[int, ...], members: int) -> None:
        super().__init__()
        self.counts, self.members, self.layers = counts, members, len(hidden) + 1
        self.weights, self.biases = nn.ParameterList(), nn.ParameterList()
        for j, count in enumerate(counts):
            for first, last in itertools.pairwise((context + sum(counts[:j]), *hidden, count)):
                bound = max(first, 1) ** -0.5
                self.weights.append(nn.Parameter((2 * torch.rand(members, first, last) - 1) * bound))
                self.biases.append(nn.Parameter((2 * torch.rand(members, 1, last) - 1) * bound))

    def _log_shares(self, place: int, seen: Tensor) -> Tensor:
        """Log probabilities (k, b, count) of the number at a place, from c and the numbers before it (b, e + ...)."""
        h = seen.expand(self.members, *seen.shape)
        for layer in range(place * self.layers, (place + 1) * self.layers):
            h = torch.baddbmm(self.biases[layer], h, self.weights[layer])
            h = nn.functional.silu(h) if (layer + 1) % self.layers else h
        return torch.log_softmax(h, -1)

    def show(self, codes: Tensor) -> Tensor:
        """Return codes (b, d), whole numbers, as zeros and ones (b, sum of counts)."""
        parts = [nn.functional.one_hot(codes[:, j], count) for j, count in enumerate(self.counts)]
        return torch.cat(parts, 1).float()

    def log_prob_members(self, codes: Tensor, c: Tensor) -> Tensor:
        """Log probability (k, b) of codes (b, d) given c (b, e), of each member."""
        shown, total = self.show(codes), torch.zeros(self.members, len(codes))
        for j in range(len(self.counts)):
            shares = self._log_shares(j, torch.cat([c, shown[:, : sum(self.counts[:j])]], 1))
            total = total + shares.gather(2, codes[None, :, j : j + 1].expand(self.members, -1, -1))[..., 0]
        return total

    def sample(self, c: Tensor, g: torch.Generator) -> Tensor:
        """Draw codes (b, d), each row from a member chosen at random."""
        member, rows = torch.randint(self.members, (len(c),), generator=g), torch.arange(len(c))
        codes = torch.zeros(len(c), len(self.counts), dtype=torch.long)
        for j in range(len(self.counts)):
            shares = self._log_shares(j, torch.cat([c, self.show(codes)[:, : sum(self.counts[:j])]], 1))
            codes[:, j] = torch.multinomial(shares[member, rows].exp(), 1, generator=g)[:, 0]
        return codes


class MixedNet(nn.Module):
    """Discrete numbers by their probabilities, and the others by a density given them; y (b, p) holds both."""

    def __init__(self, head: DiscreteHead, density: nn.Module | None, states: tuple[int, ...]) -> None:
        super().__init__()
        self.head, self.density, self.members = head, density, head.members
        self.discrete = torch.tensor([count > 0 for count in states])

    def _split(self, y: Tensor, c: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return codes (b, d), the other numbers (b, p - d) and the condition with the codes (b, e + counts)."""
        last = torch.tensor(self.head.counts) - 1
        codes = torch.minimum(y[:, self.discrete].round().long().clamp(min=0), last)
        return codes, y[:, ~self.discrete], torch.cat([c, self.head.show(codes)], 1)

    def log_prob_members(self, y: Tensor, c: Tensor) -> Tensor:
        """Log probability times density (k, b) of each member: what is maximised."""
        codes, rest, shown = self._split(y, c)
        total = self.head.log_prob_members(codes, c)
        if self.density is None:
            return total
        many = isinstance(self.density, MembersNet)
        return total + (self.density.log_prob_members if many else self.density.log_prob)(rest, shown)  # type: ignore[operator]

    def log_prob(self, y: Tensor, c: Tensor) -> Tensor:
        """Log of mean probability times mean density (b,)."""
        codes, rest, shown = self._split(y, c)
        total = torch.logsumexp(self.head.log_prob_members(codes, c), 0) - math.log(self.members)
        return total if self.density is None else total + self.density.log_prob(rest, shown)  # type: ignore[operator]

    def sample(self, c: Tensor, g: torch.Generator) -> Tensor:
        """Draw once per row of c (b, e)."""
        codes = self.head.sample(c, g)
        out = torch.empty(len(c), len(self.discrete))
        out[:, self.discrete] = codes.float()
        if self.density is not None:
            out[:, ~self.discrete] = self.density.sample(torch.cat([c, self.head.show(codes)], 1), g)  # type: ignore[operator]
        return out
