"""The inspector's page: one file with all its data, or one that fetches it from the server."""

from __future__ import annotations

from collections.abc import Iterable

from eca_server.workbench.pages import render_page


def render_file_page(name: str, parts: Iterable[bytes]) -> str:
    """Render a page that contains every part."""
    data = b",".join(part.rstrip() for part in parts).replace(b"<", b"\\u003c").decode()
    return render_page("inspector.html", name=name, data=data)


def render_live_page(name: str) -> str:
    """Render a page that fetches the parts from its server, with the token of its address."""
    return render_page("inspector.html", name=name, data=None)
