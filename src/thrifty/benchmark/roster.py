"""List the methods of the benchmark; adding one is one entry."""

from __future__ import annotations

from functools import cache
from importlib.util import find_spec

from thrifty.benchmark.method import Method
from thrifty.errors import ConfigError

NAMES = (
    *("npe", "npe-aware", "nle", "nle-aware", "nre", "nre-aware", "abc", "abc-aware"),
    *("smcabc", "smcabc-aware", "rounds-nle", "rounds-nle-aware", "rounds-npe", "rounds-npe-aware"),
    *("paper-k1", "paper-k2", "paper-mixture"),
    *("sbi-npe", "sbi-nle", "sbi-tsnpe", "sbi-snle", "pyabc-smc"),
)


@cache
def list_methods() -> dict[str, Method]:
    """Return all methods by name, in the order of `NAMES`; nothing heavy is imported until one is used."""
    from thrifty.benchmark.methods.amortised import fit_aware, fit_plain
    from thrifty.benchmark.methods.at_observation import fit_rounds, fit_smc_abc
    from thrifty.benchmark.methods.paper_scheme import fit_paper, propose_mixture, propose_power
    from thrifty.benchmark.methods.pyabc_smc import fit_pyabc
    from thrifty.benchmark.methods.sbi_methods import fit_in_rounds, fit_once
    from thrifty.inference.abc import ABC
    from thrifty.inference.neural.nle import NLE
    from thrifty.inference.neural.npe import NPE
    from thrifty.inference.neural.nre import NRE

    found = []
    for method, density in ((NPE, True), (NLE, True), (NRE, True), (ABC, False)):
        label, needs = method.__name__.lower(), "" if method is ABC else "torch"
        found += [
            Method(label, fit_plain(method), has_density=density, needs=needs),
            Method(f"{label}-aware", fit_aware(method), has_density=density, needs=needs),
        ]
    for aware in (False, True):
        end = "-aware" if aware else ""
        found += [
            Method(f"smcabc{end}", fit_smc_abc(aware=aware), amortised=False),
            Method(f"rounds-nle{end}", fit_rounds(NLE, aware=aware), amortised=False, has_density=True, needs="torch"),
            Method(f"rounds-npe{end}", fit_rounds(NPE, aware=aware), amortised=False, has_density=True, needs="torch"),
        ]
    found += [
        Method("paper-k1", fit_paper(propose_power(1)), has_density=True, needs="torch"),
        Method("paper-k2", fit_paper(propose_power(2)), has_density=True, needs="torch"),
        Method("paper-mixture", fit_paper(propose_mixture), has_density=True, needs="torch"),
        Method("sbi-npe", fit_once("NPE"), has_density=True, needs="sbi"),
        Method("sbi-nle", fit_once("NLE"), amortised=False, needs="sbi", costly=True),  # its draws take minutes, too
        Method("sbi-tsnpe", fit_in_rounds("NPE_C", truncated=True), False, has_density=True, needs="sbi", costly=True),
        Method("sbi-snle", fit_in_rounds("NLE", truncated=False), amortised=False, needs="sbi", costly=True),
        Method("pyabc-smc", fit_pyabc, amortised=False, needs="pyabc"),
    ]
    by_name = {method.name: method for method in found}
    return {name: by_name[name] for name in NAMES}


def find_method(name: str) -> Method:
    """Return the method of this name, if what it needs is installed.

    Example:
        >>> find_method("abc").amortised
        True
    """
    if name not in NAMES:
        raise ConfigError(f"no method {name!r}", code="bad-name", fix=f"one of {', '.join(NAMES)}")
    method = list_methods()[name]
    if method.needs and find_spec(method.needs) is None:
        raise ConfigError(
            f"{name} needs {method.needs}, which is not installed",
            code="missing-extra",
            fix='pip install "thrifty[all,bench]" sbi',
        )
    return method
