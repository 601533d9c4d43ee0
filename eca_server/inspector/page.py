"""The inspector's page: one file with all its data, or one that fetches it from the server."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from eca_server.pages import render_page

__all__ = ["render_file_page", "render_live_page"]

_SCRIPTS: Final = ("inspector_reading.js", "inspector_list.js", "inspector.js")

_BODY: Final = """\
<header>
<h1 id="name">Conversation</h1><span id="state" class="badge" role="status"></span>
<dl id="facts"></dl>
</header>
<p id="fault" class="notes" role="alert" hidden></p>
<div class="tools">
<input type="search" placeholder="Search in messages" aria-label="Search in messages">
<select id="side" aria-label="Sender"><option value="">both sides</option>
<option value="client">editor</option><option value="server">server</option></select>
<select id="what" aria-label="Method"><option value="">all methods</option></select>
<select id="chat" aria-label="Chat"><option value="">all chats</option></select>
<button id="found" aria-pressed="false">findings</button>
<span id="count" class="faint end" role="status"></span>
<button id="tail" aria-pressed="false">Follow</button><button id="theme">Theme</button>
</div>
<svg id="time" class="card" viewBox="0 0 1000 40" preserveAspectRatio="none" tabindex="0"
role="slider" aria-label="Time" aria-valuemin="0" aria-valuemax="0" aria-valuenow="0">
<path id="client"/><path id="server"/><path id="finding"/><rect y="0" height="40"/></svg>
<main>
<div class="card" id="list">
<div id="lanes" aria-hidden="true"><span>editor</span><span>server</span><span>model</span>
<span>tools</span><span>MCP</span></div>
<div id="rows" tabindex="0" role="listbox" aria-label="Messages"><div id="height"></div></div>
</div>
<aside class="card" id="opened" aria-label="The opened message" tabindex="-1" hidden></aside>
</main>
<p class="faint keys"><kbd>/</kbd> search, <kbd>j</kbd> <kbd>k</kbd> next and previous,
<kbd>Home</kbd> <kbd>End</kbd> first and last, <kbd>Enter</kbd> open, <kbd>Esc</kbd> close,
<kbd>n</kbd> <kbd>p</kbd> next and previous finding, <kbd>f</kbd> findings only,
<kbd>r</kbd> related message (request or answer), <kbd>l</kbd> follow new messages,
<kbd>t</kbd> theme</p>
"""


def render_file_page(name: str, parts: Iterable[bytes]) -> str:
    """Render a page that contains every part."""
    data = b",".join(part.rstrip() for part in parts).replace(b"<", b"\\u003c").decode()
    element = f'<script type="application/json" id="data">[{data}]</script>\n'
    return render_page(
        f"{name}: inspected", [_BODY, element], script=_SCRIPTS, style="inspector.css"
    )


def render_live_page(name: str) -> str:
    """Render a page that fetches the parts from its server, with the token of its address."""
    return render_page(
        f"{name}: inspected",
        [_BODY],
        script=_SCRIPTS,
        style="inspector.css",
        connects=True,
    )
