"""Pages for people: each is one file that needs no network, runs only its own script, and prints.

Whatever stands in a page came from somebody: `shown` and `quoted` make any text harmless and
visible, and the page's policy lets nothing run or load but the one script and the one style sheet
it carries.
"""

from __future__ import annotations

import base64
import hashlib
import html
import re
from collections.abc import Iterable, Sequence
from importlib.resources import files
from typing import Final

__all__ = ["page", "quoted", "shown"]

_JOINS: Final = "\u200c\u200d"
"""Joiners are spelling between letters of many scripts and in emoji, and hide nothing there."""
_VISIBLE: Final = "[^\x00-\xa0\u200b-\u200f\u2028-\u202f\u2060-\u206f\U000e0000-\U000e0fff]"
_UNSEEN: Final = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff"
    "\ud800-\udfff\ufff9-\uffff\U000e0000-\U000e0fff]"
    f"|(?<!{_VISIBLE})[{_JOINS}]|[{_JOINS}](?!{_VISIBLE})"
)


def shown(text: str) -> str:
    """A text between HTML tags: escaped, and what hides or turns other characters spelled out."""
    return _UNSEEN.sub(lambda found: f"<i>{_spelled(found)}</i>", html.escape(text))


def quoted(text: str) -> str:
    """The same for places that hold no tags: an attribute's value, a title."""
    return _UNSEEN.sub(_spelled, html.escape(text))


def page(
    title: str,
    body: Iterable[str],
    *,
    script: str | Sequence[str] = (),
    style: str = "",
    connects: bool = False,
) -> str:
    """A whole page.

    Args:
        title: any text.
        body: HTML, made with `shown` and `quoted` where it holds what came from elsewhere.
        script: the name of the script of this folder that the page runs, or of several.
        style: likewise, of a style sheet beside the one of all pages.
        connects: the script may ask the server that the page came from.
    """
    rules = "".join(_file(name) for name in ("page.css", style) if name)
    code = "".join(map(_file, [script] if isinstance(script, str) else script))
    policy = (
        "default-src 'none'; base-uri 'none'; form-action 'none'; trusted-types 'none'; "
        "require-trusted-types-for 'script'; "
        f"style-src {_hash(rules)}; script-src {_hash(code)}"
        + ("; connect-src 'self'" if connects else "")
    )
    return "".join(
        (
            '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n',
            f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n',
            '<meta name="viewport" content="width=device-width, initial-scale=1">\n',
            '<meta name="referrer" content="no-referrer">\n',
            f"<title>{quoted(title)}</title>\n<style>{rules}</style>\n</head>\n<body>\n",
            *body,
            f"<script>{code}</script>\n" if code else "",
            "</body>\n</html>\n",
        )
    )


def _spelled(found: re.Match[str]) -> str:
    return f"\\u{{{ord(found[0]):x}}}"


def _file(name: str) -> str:
    return (files(__package__) / name).read_text("utf-8")


def _hash(code: str) -> str:
    """What a policy calls a script or a style sheet by."""
    if not code:
        return "'none'"
    digest = hashlib.sha256(code.encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"
