"""The decisions of the program that starts the server."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

import attrs

from eca_protocol.revisions import Revision
from eca_server.secret import Secret

__all__ = ["Options"]


@attrs.frozen(kw_only=True)
class Options:
    """The decisions of the program that starts the server.

    Attributes:
        environ: the environment variables; keys and `ECA_CONFIG` are looked for there.
        config_file: read in place of the user's and the workspace's configuration.
        revision: forces the protocol's edition; None: detected at `initialize` (W-12).
        keeps_chats: whether chats are stored and found again after a restart.
        watch_seconds: how often the configuration's files are looked at; None: never again.
        discovers: whether endpoints are asked which models they have, and more is learned of
            these, in the background; it is kept for the next start.
        hide: told every key in use, so that the log can hide it.
        trusts_workspace: the settings of opened folders count for this session, but for those
            that take variables or files of the user's.
    """

    environ: Mapping[str, str]
    config_file: Path | None = None
    revision: Revision | None = None
    keeps_chats: bool = False
    watch_seconds: float | None = None
    discovers: bool = False
    hide: Callable[[Iterable[Secret]], None] = lambda _: None
    trusts_workspace: bool = False
