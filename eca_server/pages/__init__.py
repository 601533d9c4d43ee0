"""Pages for people: each is one file that needs no network, runs only its own script, and prints.

Whatever stands in a page came from somebody: `shown` makes any text harmless and visible, and the
page's policy lets nothing run or load but the one script and the one style sheet it carries.
"""

from __future__ import annotations

import base64
import hashlib
import html
import re
from collections.abc import Sequence
from importlib.resources import files
from typing import Final

__all__ = ["page", "shown"]

_UNSEEN: Final = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff"
    "\ud800-\udfff\ufff9-\uffff\U000e0000-\U000e0fff]"
)


def shown(text: str) -> str:
    """A text for HTML: escaped, and every character that hides or turns others spelled out."""
    visible = _UNSEEN.sub(lambda found: f"\\u{{{ord(found[0]):x}}}", text)
    return html.escape(visible, quote=True)


def page(title: str, body: Sequence[str], *, script: str | None = None) -> str:
    """A whole page.

    Args:
        title: any text.
        body: HTML, made with `shown` where it holds what came from elsewhere.
        script: the name of a script of this folder that the page runs.
    """
    style = _file("style.css")
    code = "" if script is None else _file(script)
    policy = (
        "default-src 'none'; base-uri 'none'; form-action 'none'; img-src data:; "
        f"style-src '{_hash(style)}'; script-src {_quoted(code)}"
    )
    run = f"<script>{code}</script>\n" if code else ""
    return "".join(
        (
            '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n',
            f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n',
            '<meta name="viewport" content="width=device-width, initial-scale=1">\n',
            '<meta name="color-scheme" content="light dark">\n',
            f"<title>{shown(title)}</title>\n<style>{style}</style>\n</head>\n<body>\n",
            *body,
            f"{run}</body>\n</html>\n",
        )
    )


def _file(name: str) -> str:
    return (files(__package__) / name).read_text("utf-8")


def _hash(code: str) -> str:
    digest = hashlib.sha256(code.encode()).digest()
    return f"sha256-{base64.b64encode(digest).decode()}"


def _quoted(code: str) -> str:
    return f"'{_hash(code)}'" if code else "'none'"
