"""The commands of the upstream server that are none here, and what serves instead.

Who types one is told that; README tells it, too.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

__all__ = ["LEFT_OUT"]

_PLUGINS: Final = (
    "no plugin is loaded; what one brings, skills, commands, agents, hooks and MCP servers, works "
    "from files of your own"
)

LEFT_OUT: Final[Mapping[str, str]] = {
    "debug-chat": "`/export NAME.json` writes what was said, `/prompt-show` tells what is sent",
    "plugins": _PLUGINS,
    "plugin-install": _PLUGINS,
    "plugin-uninstall": _PLUGINS,
    "remote": "nothing listens on the network",
}
"""By its name, why."""
