"""The settings of one server, with expanded texts and defaults."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final, Literal

import attrs

START_SECONDS: Final = 60.0


@attrs.frozen(kw_only=True)
class ServerSettings:
    """The settings of a server, with a `command` or a `url`.

    Attributes:
        name: its name in the configuration and in messages.
        command: the program, not a shell command.
        env: variables added to the inherited environment; None removes a variable.
        directory: its working directory; None: the first root, else the home directory.
        transport: the transport for `url`; None: detected.
        headers: headers of every request to `url`.
        revision: `auto` (a handshake first), `legacy` (only that) or a stateless revision's name.
        start_seconds: time limit for its initialization.
        keep_alive_seconds: time between two pings to a server at a `url`.
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
