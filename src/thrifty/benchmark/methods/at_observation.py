"""Fit thrifty's methods that steer their runs to one observation: SMC-ABC and rounds, with a penalty or without."""

from __future__ import annotations

from typing import Any

from thrifty.benchmark.method import Meter
from thrifty.errors import ConfigError
from thrifty.inference.neural.nle import NLE
from thrifty.inference.neural.npe import NPE
from thrifty.penalties import Constant
from thrifty.sequential.rounds import Rounds
from thrifty.sequential.smc_abc import SMCABC
from thrifty.types import Array


def fit_smc_abc(*, aware: bool) -> Any:
    """Make the fit of `th.SMCABC` with its default penalty, or none."""

    def fit(meter: Meter, x_o: Array | None, budget: float, seed: int) -> Any:
        settings = SMCABC(meter.prior) if aware else SMCABC(meter.prior, penalty=Constant())
        return settings.run(meter, _check(x_o), budget=budget, seed=seed).posterior

    return fit


def fit_rounds(method: type[NLE | NPE], *, aware: bool) -> Any:
    """Make the fit of `th.Rounds` of a method class with its default penalty, or none."""

    def fit(meter: Meter, x_o: Array | None, budget: float, seed: int) -> Any:
        inner = method(meter.prior)
        settings = Rounds(inner) if aware else Rounds(inner, penalty=Constant())
        return settings.run(meter, _check(x_o), budget=budget, seed=seed).posterior

    return fit


def _check(x_o: Array | None) -> Array:
    if x_o is None:
        raise ConfigError("this method needs an observation", code="bad-observation", fix="amortised=False")
    return x_o
