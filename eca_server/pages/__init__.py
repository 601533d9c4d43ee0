"""HTML pages: each is one file that needs no network, runs only its own script, and prints.

All texts in a page are untrusted: `escape_text` and `escape_attribute` make any text harmless and
visible. The page's content security policy allows only its own script and style sheet.
"""

from __future__ import annotations

import base64
import hashlib
import html
import re
from collections.abc import Iterable, Sequence
from importlib.resources import files
from typing import Final

__all__ = ["escape_attribute", "escape_text", "render_page"]

_JOINS: Final = "\u200c\u200d"
"""Joiners are legitimate between letters of many scripts and in emoji."""
_VISIBLE: Final = "[^\x00-\xa0\u200b-\u200f\u2028-\u202f\u2060-\u206f\U000e0000-\U000e0fff]"
_INVISIBLE: Final = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff"
    "\ud800-\udfff\ufff9-\uffff\U000e0000-\U000e0fff]"
    f"|(?<!{_VISIBLE})[{_JOINS}]|[{_JOINS}](?!{_VISIBLE})"
)


def escape_text(text: str) -> str:
    """Escape a text between HTML tags, and make invisible and bidirectional characters visible."""
    return _INVISIBLE.sub(lambda match: f"<i>{_code_point(match)}</i>", html.escape(text))


def escape_attribute(text: str) -> str:
    """Escape an attribute's value or a title in the same way, without tags."""
    return _INVISIBLE.sub(_code_point, html.escape(text))


def render_page(
    title: str,
    body: Iterable[str],
    *,
    script: str | Sequence[str] = (),
    style: str = "",
    connects: bool = False,
) -> str:
    """Render a page.

    Args:
        title: any text.
        body: HTML; untrusted texts in it are escaped already.
        script: the name of the page's script in this directory, or several names.
        style: the name of a style sheet in this directory, added to the common one.
        connects: allow the script to connect to the page's server.
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
            f"<title>{escape_attribute(title)}</title>\n<style>{rules}</style>\n</head>\n<body>\n",
            *body,
            f"<script>{code}</script>\n" if code else "",
            "</body>\n</html>\n",
        )
    )


def _code_point(match: re.Match[str]) -> str:
    return f"\\u{{{ord(match[0]):x}}}"


def _file(name: str) -> str:
    return (files(__package__) / name).read_text("utf-8")


def _hash(code: str) -> str:
    """Return a script's or style sheet's hash for the policy."""
    if not code:
        return "'none'"
    digest = hashlib.sha256(code.encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"
