"""Known clients as data: their announcements, and how they write.

The suite can act as each, to see whether a server that recognizes its clients serves them well.
Only this module of the kit has their names.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final, Literal

import attrs

from eca_protocol import json

__all__ = ["COUNTS_FROM_ZERO", "PERSONALITIES", "PLAIN", "Personality"]


@attrs.frozen(kw_only=True)
class Personality:
    """The characteristics of one client.

    Attributes:
        client: its `clientInfo`.
        assistant: `capabilities.codeAssistant`.
        options: its `initializationOptions`; None: it sends none.
        process_id: whether it sends its process id, null, or nothing.
        initialized: the params of its `initialized`; None is a null.
        extra_params: members that it adds to the params of every message that has params.
        spelling: the form of its JSON: plain, followed by a line end, or with escaped slashes.
        loses_large_frames: whether a server may shorten messages so that a frame fits a read.
    """

    client: Mapping[str, Any]
    assistant: Mapping[str, Any]
    options: Mapping[str, Any] | None = attrs.field(factory=dict)
    process_id: Literal["number", "null", "nothing"] = "number"
    initialized: Any = attrs.field(factory=dict)
    extra_params: Mapping[str, Any] = attrs.field(factory=dict)
    spelling: Literal["plain", "line end", "escaped slashes"] = "plain"
    loses_large_frames: bool = False

    def body(self, message: Any) -> bytes:
        """Encode a message as this client writes it, without a frame.

        Raises:
            LocalProtocolError: it cannot be written as JSON.
        """
        body = json.dumps(message)
        if self.spelling == "line end":
            body += b"\n"
        elif self.spelling == "escaped slashes":
            body = body.replace(b"/", b"\\/")
        return body


PLAIN: Final = Personality(
    client={"name": "eca-conformance", "version": "1.0"}, assistant={"chat": True}
)
"""A client without characteristics."""

_ASKS: Final = {"askQuestion": True}
_EDITOR: Final = {"diagnostics": True, "definition": True, "references": True}

_EMACS: Final = {"name": "emacs", "version": "GNU Emacs 30.1 (build 1, x86_64)\n of 2025-02-24"}
_VSCODE: Final = {"name": "VsCode", "version": "XXX"}  # the plugin sends just that

COUNTS_FROM_ZERO: Final[Mapping[str, Any]] = _VSCODE
"""The `clientInfo` of a client whose diagnostics count lines from 0."""

PERSONALITIES: Final[Mapping[str, Personality]] = MappingProxyType(
    {
        "cli": Personality(
            client={"name": "eca-cli"},
            assistant={"chat": True},
            options=None,
            process_id="null",
        ),
        "desktop": Personality(
            client={"name": "Desktop", "version": "0.9.12"},
            assistant={"chat": True, "chatCapabilities": _ASKS},
            options=None,
        ),
        "emacs": Personality(
            client=_EMACS,
            assistant={"chat": True, "chatCapabilities": _ASKS, "editor": _EDITOR},
            options={"chatAgent": None},
            initialized=None,
            spelling="line end",
        ),
        "emacs-2025": Personality(
            client=_EMACS,
            assistant={"chat": True, "editor": {"diagnostics": True}},
            options={"chatBehavior": None},
            initialized=None,
            spelling="line end",
            loses_large_frames=True,
        ),
        "intellij": Personality(
            client={"name": "IntelliJ", "version": "0.29.0"},
            assistant={"chat": True, "chatCapabilities": _ASKS, "editor": _EDITOR},
            options={"serverPath": None, "serverArgs": "", "usageStringFormat": "%s"},
            process_id="nothing",
        ),
        "neovim": Personality(
            client={"name": "Neovim", "version": "0.10.4"},
            assistant={"chat": True, "editor": {"diagnostics": True}},
            options=None,
            initialized=[],
            extra_params={"contexts": []},
            spelling="escaped slashes",
            loses_large_frames=True,
        ),
        "vscode": Personality(
            client=_VSCODE,
            assistant={
                "chat": True,
                "rewrite": True,
                "chatCapabilities": _ASKS,
                "editor": _EDITOR,
            },
        ),
        "vscode-2025": Personality(client=_VSCODE, assistant={"chat": True}),
    }
)
"""Clients by their name on the command line; a year means the version of that year."""
