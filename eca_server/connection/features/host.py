"""The program that serves a connection: its decisions, and what the parts run on."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping
from contextlib import AsyncExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import attrs
import trio

from eca_protocol.peer import Peer
from eca_protocol.revisions import Revision
from eca_server.secret import Secret

if TYPE_CHECKING:
    from eca_protocol.http import HTTPClient
    from eca_server.agent.chat.store.worker import FileThreads


@attrs.frozen(kw_only=True)
class Options:
    """The decisions of the program that starts the server.

    Attributes:
        environ: the environment variables, with keys and `ECA_CONFIG`.
        config_file: replaces the user's and the workspace's configuration.
        revision: forces the protocol's revision; None: detected at `initialize` (W-12).
        keeps_chats: whether chats are stored and available after a restart.
        watch_seconds: the interval between checks of the configuration's files; None: no checks.
        load_seconds: the longest wait of the client's messages for agents in files and workspace
            configuration.
        discovers: whether models are discovered in the background; results are cached for the next
            start.
        hide: called with every secret in use, so that the log can hide it.
        only_answers: whether nothing runs unasked: no hook, MCP server or discovery of models.
        runs_hooks: whether hooks of the configuration run; a diagnosis has no side effects.
        trusts_workspace: whether the settings of workspace folders apply in this session, except
            those that use variables or files of the user's.
        chat_threads: the threads of the files of chats, which the servers of a process share; None:
            this server has its own.
    """

    environ: Mapping[str, str]
    config_file: Path | None = None
    revision: Revision | None = None
    keeps_chats: bool = False
    watch_seconds: float | None = None
    load_seconds: float = 2.0
    discovers: bool = False
    hide: Callable[[Iterable[Secret]], None] = lambda _: None
    only_answers: bool = False
    runs_hooks: bool = True
    trusts_workspace: bool = False
    chat_threads: FileThreads | None = None


class Host:
    """The foundation of the parts of a connection: the peer, the tasks, the options, HTTP.

    Args:
        at_end: closes the HTTP client after the peer.
    """

    def __init__(
        self, peer: Peer, nursery: trio.Nursery, options: Options, at_end: AsyncExitStack
    ) -> None:
        self.peer = peer
        self.nursery = nursery
        self.options = options
        self._at_end = at_end

    @functools.cached_property
    def http(self) -> HTTPClient:
        """The HTTP client of the connection, made at its first use."""
        from eca_protocol.http import HTTPClient  # noqa: PLC0415 - not for the answer to `initialize`

        http = HTTPClient()
        self._at_end.push_async_exit(http)
        return http
