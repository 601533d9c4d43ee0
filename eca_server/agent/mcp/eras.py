"""The revisions of MCP in one table; `Era` holds their differences.

There are two families: revisions until 2025-11-25 have connections with a state, opened by the
handshake `initialize`; stateless ones (from 2026-07-28) name the client and the revision in every
request.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

import attrs

_META: Final = "io.modelcontextprotocol/"
_NAMED: Final = MappingProxyType(
    {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}
)


@attrs.frozen(kw_only=True)
class Era:
    """The properties of one revision.

    Attributes:
        revision: its name on the wire.
        stateless: true if there is no handshake, no session and no request of the server; every
            request names the client.
        has_version_header: true if every HTTP request after the handshake names the revision.
        empty_cursor_ends: true if a `nextCursor` of `""` means that there is no next page.
        cancels_by_notification: true if cancellation over HTTP is a notification, too; else closing
            the answer's stream cancels.
    """

    revision: str
    stateless: bool = False
    has_version_header: bool = True
    empty_cursor_ends: bool = True
    cancels_by_notification: bool = True

    def params(
        self, params: Mapping[str, Any], *, client: Mapping[str, Any], capabilities: Any
    ) -> dict[str, Any]:
        """Return the params of a request in this revision."""
        if not self.stateless:
            return dict(params)
        meta = {
            **params.get("_meta", {}),
            f"{_META}protocolVersion": self.revision,
            f"{_META}clientCapabilities": capabilities,
            f"{_META}clientInfo": client,
        }
        return {**params, "_meta": meta}

    def headers(self, method: str, params: Mapping[str, Any]) -> dict[str, str]:
        """Return the HTTP headers of a message."""
        if not self.has_version_header:
            return {}
        headers = {"MCP-Protocol-Version": self.revision}
        if self.stateless:
            headers["Mcp-Method"] = method
            named = params.get(_NAMED.get(method, ""))
            if isinstance(named, str):
                headers["Mcp-Name"] = header_value(named)
        return headers


def header_value(text: str) -> str:
    """Return a text as a header's value: unchanged, or marked and in Base64."""
    plain = text.isascii() and text.isprintable() and text == text.strip()
    if plain and not text.startswith("=?base64?"):
        return text
    encoded = base64.b64encode(text.encode("utf-8", "replace")).decode("ascii")
    return f"=?base64?{encoded}?="


ERAS: Final[Mapping[str, Era]] = MappingProxyType(
    {
        era.revision: era
        for era in (
            Era(revision="2024-11-05", has_version_header=False),
            Era(revision="2025-03-26", has_version_header=False),
            Era(revision="2025-06-18"),
            Era(revision="2025-11-25"),
            Era(
                revision="2026-07-28",
                stateless=True,
                empty_cursor_ends=False,
                cancels_by_notification=False,
            ),
        )
    }
)
"""The supported revisions, oldest first."""

OFFERED: Final = "2025-11-25"
"""The revision that `initialize` offers: every server of today accepts it."""


def era_of(revision: object) -> Era | None:
    """Return the era of a revision, or None if it is not supported."""
    return ERAS.get(revision) if isinstance(revision, str) else None


def newest_stateless(supported: object) -> Era | None:
    """Return the newest supported stateless era among a server's revisions, or None."""
    names = supported if isinstance(supported, (list, tuple)) else ()
    spoken = [era for era in ERAS.values() if era.stateless and era.revision in names]
    return spoken[-1] if spoken else None
