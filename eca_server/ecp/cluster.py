"""Scenarios on a Dask cluster: an executor like any other; the extra `dask` brings what it takes.

What a worker had that is lost is given to another one, by the cluster first, by the run then. The
agents run where the workers do: they are started with the workers' environment and files.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from concurrent.futures import Executor, Future
from typing import Any, Final, TypeVar

__all__ = ["Cluster", "ClusterUnusable"]

_SECONDS: Final = 10.0
_SCHEMES: Final = ("tcp", "tls", "ws", "wss", "ucx")
_ResultT = TypeVar("_ResultT")


class ClusterUnusable(Exception):
    """There is no such cluster, or what it takes is not installed; the text says which."""


class Cluster(Executor):
    """A connection to a cluster, which ends when the executor is shut down.

    Attributes:
        places: how many scenarios its workers can run at once, at least one.
    """

    def __init__(self, address: str, *, seconds: float = _SECONDS) -> None:
        """Connects.

        Raises:
            ClusterUnusable: the extra is not installed, or nobody answers at the address.
        """
        scheme, separator, _ = address.partition("://")
        if separator and scheme not in _SCHEMES:
            raise ClusterUnusable(f"--dask {address}: expected an address like tcp://HOST:PORT")
        try:
            distributed = importlib.import_module("distributed")
        except ImportError:
            why = "--dask needs the extra: pip install 'eca-protocol[dask]'"
            raise ClusterUnusable(why) from None
        try:
            self._client = distributed.Client(address, timeout=seconds, set_as_default=False)
        except (OSError, ValueError, TypeError) as fault:
            raise ClusterUnusable(f"--dask {address}: {fault}") from fault
        self._executor: Executor = self._client.get_executor(pure=False)
        self.places: int = max(1, sum(self._client.nthreads().values()))

    def submit(
        self, run: Callable[..., _ResultT], /, *arguments: Any, **named: Any
    ) -> Future[_ResultT]:
        """Let a worker run it."""
        return self._executor.submit(run, *arguments, **named)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Disconnect; what still runs is waited for, or given up."""
        self._executor.shutdown(wait=wait and not cancel_futures)
        self._client.close()
