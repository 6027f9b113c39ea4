"""The ways of a table in and out: files and other tools. Each is one call into the module that does it."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy.typing as npt

from thrifty.types.arrays import Array
from thrifty.types.protocols import Weighting

if TYPE_CHECKING:  # pragma: no cover
    import arviz
    import pandas

    from thrifty.sbi_bridge import SbiTable
    from thrifty.types.simulations import Simulations


class Travelling:
    """Reading and writing; `Simulations` is its only heir."""

    @classmethod
    def from_csv(
        cls,
        path: str | os.PathLike[str],
        *,
        theta: Sequence[str] | str,
        x: Sequence[str] | str | None = None,
        weights: str | None = None,
        cost: str | None = None,
        proposal: Weighting | None = None,
        m: int = 1,
    ) -> Simulations:
        """Runs from a CSV file with a header: see `thrifty.csv_files.from_csv`."""
        from thrifty.csv_files import from_csv

        return from_csv(path, theta=theta, x=x, weights=weights, cost=cost, proposal=proposal, m=m)

    @classmethod
    def from_npz(
        cls,
        path: str | os.PathLike[str],
        *,
        weights: npt.ArrayLike | None = None,
        proposal: Weighting | None = None,
    ) -> Simulations:
        """Runs from an npz file with arrays `theta` and `x`: see `thrifty.plain_files.from_npz`."""
        from thrifty.plain_files import from_npz

        return from_npz(path, weights=weights, proposal=proposal)

    @classmethod
    def from_pandas(cls, frame: pandas.DataFrame) -> Simulations:
        """The table that `to_pandas` wrote, bit for bit."""
        from thrifty.exchange import from_pandas

        return from_pandas(frame)

    @classmethod
    def from_parquet(cls, path: str | os.PathLike[str]) -> Simulations:
        """The table that `to_parquet` wrote, bit for bit."""
        from thrifty.exchange import from_parquet

        return from_parquet(path)

    def to_pandas(self: Any) -> pandas.DataFrame:
        """A flat DataFrame: parameters, outputs, `log_weight`, `cost`, `status`, `index`."""
        from thrifty.exchange import to_pandas

        return to_pandas(self)

    def to_parquet(self: Any, path: str | os.PathLike[str]) -> None:
        """Write `to_pandas` as parquet."""
        from thrifty.exchange import to_parquet

        to_parquet(self, path)

    def to_npz(self: Any, path: str | os.PathLike[str]) -> None:
        """Write plain arrays, without pickle."""
        from thrifty.plain_files import to_npz

        to_npz(self, path)

    def to_dict(self: Any) -> dict[str, Array]:
        """Arrays for BayesFlow, with `sample_weight` of mean 1."""
        from thrifty.exchange import to_dict

        return to_dict(self)

    def to_arviz(self: Any) -> arviz.InferenceData:
        """ArviZ data with log weights."""
        from thrifty.exchange import to_arviz

        return to_arviz(self)

    def to_sbi(self: Any) -> SbiTable:
        """theta, x and a proposal for sbi's NPE_C."""
        from thrifty.sbi_bridge import to_sbi

        return to_sbi(self)
