"""The commands of the upstream server that this one lacks, and their replacements.

The error for such a command shows the replacement; the README lists it, too.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

_PLUGINS: Final = (
    "plugins are not supported; configure skills, commands, agents, hooks and MCP servers in your "
    "own files"
)

UNSUPPORTED: Final[Mapping[str, str]] = {
    "debug-chat": "send `/export NAME.json` for the messages, `/prompt-show` for the next request",
    "eca-info": "send `/doctor` or `/config`",
    "memory-consolidate": "nothing is remembered across chats; write it into an AGENTS.md",
    "plugins": _PLUGINS,
    "plugin-install": _PLUGINS,
    "plugin-uninstall": _PLUGINS,
    "plugin-update": _PLUGINS,
    "remote": "the server does not listen on the network",
}
"""The reason or the replacement, by the command's name."""
