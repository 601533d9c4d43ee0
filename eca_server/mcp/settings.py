"""One configured server, as a session needs it: every text expanded, every default filled in."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final, Literal

import attrs

__all__ = ["START_SECONDS", "ServerSettings"]

START_SECONDS: Final = 60.0


@attrs.frozen(kw_only=True)
class ServerSettings:
    """What is known of a server before it is asked; it has a `command` or a `url`.

    Attributes:
        name: its key in the configuration; what messages call it.
        command: the program, never a shell's line.
        args: its arguments.
        env: set over the environment it inherits; None removes a variable.
        directory: where it runs; None: the first root, else the home directory.
        url: where it listens.
        transport: how a `url` is spoken to; None: found out.
        headers: sent with every request to `url`.
        revision: `auto` (a handshake first), `legacy` (only that) or a stateless revision's name.
        start_seconds: how long it may take to be initialized.
        keep_alive_seconds: between two signs of life that are wanted of a server at a `url`.
    """

    name: str
    command: str | None = None
    args: tuple[str, ...] = ()
    env: Mapping[str, str | None] = attrs.field(factory=dict, repr=False)
    directory: Path | None = None
    url: str | None = None
    transport: Literal["http", "sse"] | None = None
    headers: Mapping[str, str] = attrs.field(factory=dict, repr=False)
    revision: str = "auto"
    start_seconds: float = START_SECONDS
    keep_alive_seconds: float = 30.0
