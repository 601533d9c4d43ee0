"""The user's project: its roots, from the URIs the client sends to folders on this machine."""

from __future__ import annotations

from eca_server.workspace.roots import Root, parse_roots, path_of, uri_of

__all__ = ["Root", "parse_roots", "path_of", "uri_of"]
