"""An executor that runs scenarios on a Dask cluster; it needs the extra `dask`.

The work of a lost worker goes to another one: the cluster retries first, then the run. Agents run
on the workers' machines, with the workers' environment and files.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from concurrent.futures import Executor, Future
from typing import Any, Final, TypeVar

from typing_extensions import override

from eca_server.ecp.manifest.model import Unusable

_SECONDS: Final = 10.0
_SCHEMES: Final = ("tcp", "tls", "ws", "wss", "ucx")
_ResultT = TypeVar("_ResultT")


class Cluster(Executor):
    """A connection to a cluster, closed by `shutdown`.

    Attributes:
        slots: the number of scenarios that its workers can run at once, at least one.
    """

    def __init__(self, address: str) -> None:
        """Connect to the cluster.

        Raises:
            Unusable: the extra is not installed, or the address does not answer.
        """
        scheme, separator, _ = address.partition("://")
        if separator and scheme not in _SCHEMES:
            raise Unusable(f"--dask {address}: expected an address like tcp://HOST:PORT")
        try:
            distributed = importlib.import_module("distributed")
        except ImportError:
            why = "--dask needs the extra: pip install 'eca-protocol[dask]'"
            raise Unusable(why) from None
        try:
            self._client = distributed.Client(address, timeout=_SECONDS, set_as_default=False)
        except (OSError, ValueError, TypeError) as fault:
            raise Unusable(f"--dask {address}: {fault}") from fault
        self._executor: Executor = self._client.get_executor(pure=False)
        self.slots: int = max(1, sum(self._client.nthreads().values()))

    @override
    def submit(
        self, run: Callable[..., _ResultT], /, *arguments: Any, **named: Any
    ) -> Future[_ResultT]:
        """Run a function on a worker."""
        return self._executor.submit(run, *arguments, **named)

    @override
    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Wait for running scenarios or cancel them, and disconnect."""
        self._executor.shutdown(wait=wait and not cancel_futures)
        self._client.close()
