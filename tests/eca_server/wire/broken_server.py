"""The server with a bug, or on a machine that lacks something: the name of one of these functions.

Forked, it starts in a tenth of the time: `(*BROKEN, "bug")`.
"""

import os
import socket
import sys
import threading
import time
from functools import partial
from pathlib import Path
from typing import Any

import trio

from eca_protocol.server import endings
from eca_server.agent.chat.chats import Chats
from eca_server.agent.chat.store.store import Store
from eca_server.agent.chat.store.worker import Limits
from eca_server.cli.main import run
from eca_server.connection.features import composition
from tests.eca_server.fork_server import ECA, MODULE

BROKEN = (*ECA, MODULE, "tests.eca_server.wire.broken_server")


def bug() -> None:
    """Let a request fail, and a thread hang at the end."""

    def delete(*_: Any) -> None:
        raise KeyError("the secret of the house")

    async def close(*_: Any) -> None:
        await trio.to_thread.run_sync(time.sleep, 60)

    Chats.delete, Chats.close = delete, close  # type: ignore[method-assign, assignment]
    endings.LAST_SECONDS = 0.3


def threads() -> None:
    """Let no thread start while a file exists; a chat waits shortly for that of the store."""
    start = threading.Thread.start

    def refuse(thread: threading.Thread) -> None:
        if Path(os.environ["LIMIT"]).exists():
            raise RuntimeError("can't start new thread")
        start(thread)

    threading.Thread.start = refuse  # type: ignore[method-assign]
    composition.Store = partial(Store, limits=Limits(read=0.1))  # type: ignore[misc, assignment]


def names() -> None:
    """Let the network not answer which address a host has."""

    def look_up(
        _host: str, _port: int, _family: int = 0, _type: int = 0, _: int = 0, flags: int = 0
    ) -> None:
        if flags & socket.AI_NUMERICHOST:
            raise socket.gaierror(socket.EAI_NONAME, "it is a name")
        time.sleep(60)

    socket.getaddrinfo = look_up  # type: ignore[assignment]


if __name__ == "__main__":
    globals()[sys.argv[1]]()
    sys.exit(run(["server"]))
