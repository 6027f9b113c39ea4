"""Connect to a Dask cluster by address, client or cluster object, or start one inside this process.

A cluster inside this process uses Dask's in-process channel and no HTTP server, so that it opens no port: nobody else
on the machine can send code to it, and it does not matter which ports are taken.
"""

from __future__ import annotations

import logging
import math
from dataclasses import dataclass
from typing import Any

from thrifty.errors import CampaignError, ConfigError, MissingExtraError

CONNECT_SECONDS = 10.0  # for a scheduler to answer; a busy one needs more than a short patience
ANY_LOOPBACK_PORT = "127.0.0.1:0"


@dataclass(frozen=True)
class Target:
    """Where a Dask engine runs: exactly one of address, client, cluster and workers is set.

    Attributes:
        name: What to call it in messages.
        address: Of a scheduler.
        client: The user's client.
        cluster: The user's cluster object.
        workers: Number of workers inside this process.
        security: Certificates for the address.
        dashboard: Address of a dashboard for workers inside this process, or "".
    """

    name: str
    address: str = ""
    client: Any = None
    cluster: Any = None
    workers: int = 0
    security: Any = None
    dashboard: str = ""


def read_target(where: Any, *, security: Any, dashboard: bool | str, patience: float) -> Target:
    """Check the arguments of `th.Dask` and say what they name."""
    distributed = _import_distributed()
    if isinstance(patience, bool) or not isinstance(patience, int | float) or math.isnan(patience) or patience <= 0:
        raise ConfigError(f"patience = {patience!r}, expected seconds above 0", code="bad-setting")
    if security is not None and not (isinstance(where, str) and isinstance(security, distributed.Security)):
        raise ConfigError(
            f"security = {type(security).__name__} with th.Dask({type(where).__name__})",
            code="conflicting-settings",
            fix='th.Dask("tls://scheduler:8786", security=distributed.Security(...)); a Client or cluster has its own',
        )
    if dashboard and (isinstance(where, bool) or not isinstance(where, int)):
        raise ConfigError(
            "dashboard= is for th.Dask(n): a running cluster has its own dashboard or none", code="conflicting-settings"
        )
    if isinstance(where, int) and not isinstance(where, bool) and where >= 1:
        address = ANY_LOOPBACK_PORT if dashboard is True else dashboard or ""
        return Target(f"{where} workers in this process", workers=where, dashboard=address)
    if isinstance(where, str) and where:
        if where.startswith("tls://"):
            _check_certificates(where, security or distributed.Security())
        return Target(where, address=where, security=security)
    if isinstance(where, distributed.Client):
        return _read_client(where)
    if hasattr(where, "scheduler_address"):
        return Target(_read_address(where), cluster=where)
    raise ConfigError(
        f"th.Dask({where!r:.80}): expected a scheduler's address, a Client, a cluster object or a number of workers",
        code="bad-setting",
    )


def _read_client(client: Any) -> Target:
    if client.asynchronous:
        raise ConfigError("th.Dask needs a client with asynchronous=False", code="bad-setting")
    return Target(_read_address(client.scheduler), client=client)


def _import_distributed() -> Any:
    try:
        import distributed
    except ImportError:
        raise MissingExtraError(
            "th.Dask needs dask.distributed", code="missing-extra", fix='pip install "thrifty[dask]"'
        ) from None
    return distributed


def _read_address(owner: Any) -> str:
    return str(getattr(owner, "scheduler_address", None) or getattr(owner, "address", None) or type(owner).__name__)


def _check_certificates(address: str, security: Any) -> None:
    """Refuse a tls:// address for which neither `security` nor Dask's configuration has certificates."""
    if security.get_connection_args("client").get("ssl_context") is None:
        raise ConfigError(
            f"{address} needs certificates, but none are given",
            code="bad-setting",
            fix="th.Dask(address, security=distributed.Security(tls_ca_file=..., tls_client_cert=..., "
            "tls_client_key=...)), or Dask's setting distributed.comm.tls",
        )


def connect(target: Target, started: Any) -> Any:
    """Return a client: the user's own, or a new one that the engine closes.

    Raises:
        CampaignError: no-cluster, if no scheduler answers.
    """
    if target.client is not None:
        if target.client.status != "running":
            raise CampaignError(
                f"the Dask client of {target.name} is {target.client.status}", code="no-cluster", fix="make a new one"
            )
        return target.client
    place = started or target.cluster or target.address
    options: dict[str, Any] = {"set_as_default": False, "timeout": CONNECT_SECONDS}
    if target.security is not None:
        options["security"] = target.security
    try:
        return _import_distributed().Client(place, **options)
    except (OSError, TimeoutError, ValueError) as error:
        raise CampaignError(
            f"no Dask scheduler at {target.name}: {error}", code="no-cluster", fix="start one: dask scheduler"
        ) from None


def start_cluster(target: Target) -> Any:
    """Start a scheduler and workers inside this process, without any port unless a dashboard was asked for."""
    distributed = _import_distributed()

    class PortlessScheduler(distributed.Scheduler):
        def start_http_server(self, *_: Any, **__: Any) -> None:
            """Start none: Dask would open a port even without a dashboard."""

    class PortlessWorker(distributed.Worker):
        def start_http_server(self, *_: Any, **__: Any) -> None:
            """Start none."""

    scheduler = {"protocol": "inproc://", "dashboard": bool(target.dashboard)}
    # the runs have processes of their own, whose memory Dask does not see; scripts need no __main__ guard this way
    worker = {"cls": PortlessWorker, "options": {"nthreads": 1, "memory_limit": 0, "dashboard": False}}
    kind: Any = PortlessScheduler
    if target.dashboard:
        kind = distributed.Scheduler
        scheduler["dashboard_address"] = target.dashboard
    return distributed.SpecCluster(
        scheduler={"cls": kind, "options": scheduler},
        workers=dict.fromkeys(range(target.workers), worker),
        silence_logs=logging.WARNING,
    )
