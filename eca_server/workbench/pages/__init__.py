"""HTML pages: each is one file that needs no network, runs only its own scripts, and prints.

A page is a template of this directory. All values in it are untrusted: the templates escape them,
and make invisible and bidirectional characters visible. The page's content security policy allows
only its own scripts and style sheets.
"""

from __future__ import annotations

import base64
import functools
import hashlib
import html
import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from jinja2 import Environment

__all__ = ["render_page"]

_JOINS: Final = "\u200c\u200d"
"""Joiners are legitimate between letters of many scripts and in emoji."""
_VISIBLE: Final = "[^\x00-\xa0\u200b-\u200f\u2028-\u202f\u2060-\u206f\U000e0000-\U000e0fff]"
_INVISIBLE: Final = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff"
    "\ud800-\udfff\ufff9-\uffff\U000e0000-\U000e0fff]"
    f"|(?<!{_VISIBLE})[{_JOINS}]|[{_JOINS}](?!{_VISIBLE})"
)


def render_page(template: str, /, **values: Any) -> str:
    """Render a template of this directory with any values."""
    return _environment().get_template(template).render(values)


@functools.cache
def _environment() -> Environment:
    from jinja2 import Environment, PackageLoader, StrictUndefined  # noqa: PLC0415 - only if used
    from markupsafe import Markup  # noqa: PLC0415 - only if used

    loader = PackageLoader(__name__, "")

    def visible(value: Any, code_point: str = r"<i>\u{%x}</i>") -> Any:
        if isinstance(value, Markup):
            return value
        escaped = html.escape(str(value))
        shown = _INVISIBLE.sub(lambda match: code_point % ord(match[0]), escaped)
        return Markup(shown)  # noqa: S704 - it is escaped

    def sources(names: Iterable[str]) -> str:
        return "".join(loader.get_source(environment, name)[0] for name in names)

    environment = Environment(
        loader=loader,
        autoescape=True,
        finalize=visible,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters["attribute"] = functools.partial(visible, code_point=r"\u{%x}")
    environment.filters["sources"] = sources
    environment.filters["source_hash"] = _source_hash
    return environment


def _source_hash(code: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(code.encode()).digest()).decode()}"
