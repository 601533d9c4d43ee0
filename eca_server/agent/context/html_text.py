"""An HTML page as text for a model: paragraphs, headings, lists, links, code.

The rule of this module: linear time for any input, since a page may be hostile. The standard
library's parser takes hours for some pages of two megabytes (CVE-2025-6069, for example, is unfixed
in some supported versions of Python). This parser only moves forward: an unclosed element extends
to the end.
"""

from __future__ import annotations

import html
import re
from collections.abc import Callable
from urllib.parse import urljoin

import attrs

_TOKEN = re.compile(
    r"""
    <!--.*?(?:-->|\Z)
    | <[!?][^>]*(?:>|\Z)
    | <(?P<end>/?)(?P<name>[a-z][^\s/>]*)
      (?P<rest>(?:=\s*"[^"]*(?:"|\Z) | =\s*'[^']*(?:'|\Z) | [^>])*+)
      (?:>|\Z)
    """,
    re.VERBOSE | re.DOTALL | re.IGNORECASE,
)
_DROPPED = {
    name: re.compile(rf"</{name}(?=[\s/>])", re.IGNORECASE)
    for name in ("script", "style", "template", "svg", "noscript", "iframe", "canvas", "select")
}
_ATTRIBUTE = r"""(?<![\w-]){}\s*=\s*(?:"([^"]*)|'([^']*)|([^\s"'>]+))"""
_HREF = re.compile(_ATTRIBUTE.format("href"), re.IGNORECASE)
_ALT = re.compile(_ATTRIBUTE.format("alt"), re.IGNORECASE)
_SPACE = re.compile(r"\s+")
_BLANK_LINES = re.compile(r"\n{3,}")
_PARAGRAPHS = re.compile(
    "address|article|aside|blockquote|body|details|dialog|div|dl|fieldset|figure|footer|form|h[1-6]"
    "|header|hr|main|nav|ol|p|pre|section|table|title|ul"
)
_LINES = re.compile("dd|dt|figcaption|li|option|summary|tr")
_LONGEST_LINK = 2_000  # characters
_TOKENS_AT_A_STRETCH = 1_000


@attrs.frozen(kw_only=True)
class Page:
    """A page as text; `title` may be empty."""

    title: str
    text: str


def html_to_text(source: str, *, url: str, checkpoint: Callable[[], object]) -> Page:
    """Return the visible text of a page as Markdown.

    Args:
        source: the HTML, valid or not.
        url: the URL of the page, as the base of its links.
        checkpoint: called now and then; an exception of it ends the call.
    """
    writer = _Writer(url)
    position = count = 0
    while True:
        token = _TOKEN.search(source, position)
        writer.text(source[position : token.start() if token else len(source)])
        if token is None:
            return writer.page()
        count += 1
        if count % _TOKENS_AT_A_STRETCH == 0:
            checkpoint()
        position = token.end()
        name = (token["name"] or "").lower()
        if token["end"]:
            writer.close(name)
        elif name in _DROPPED:
            closing = _DROPPED[name].search(source, position)
            position = closing.start() if closing else len(source)
        elif name:
            writer.open(name, token["rest"])


class _Writer:
    """A writer of Markdown from tags and texts in order."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._parts: list[str] = []
        self._link: tuple[int, str] | None = None  # its start in the parts, and its URL
        self._title: int | None = None  # its start in the parts
        self._titles: list[str] = []
        self._is_raw = False

    def text(self, source: str) -> None:
        if not source:
            return
        text = html.unescape(source)
        if not self._is_raw:
            text = _SPACE.sub(" ", text)
            if self._is_at_a_gap():
                text = text.removeprefix(" ")
        if text:
            self._parts.append(text)

    def open(self, name: str, attributes: str) -> None:
        self._break(name)
        if name == "a":
            self._link = self._link_to(attributes)
        elif name == "img":
            self.text(_value(_ALT, attributes))
        elif name == "title":
            self._title = len(self._parts)
        elif name == "pre":
            self._parts.append("```\n")
            self._is_raw = True
        elif name == "li":
            self._parts.append("- ")
        elif name in {"td", "th"}:
            self._parts.append("| " if self._is_at_a_gap() else " | ")
        elif len(name) == 2 and name[0] == "h" and name[1] in "123456":
            self._parts.append("#" * int(name[1]) + " ")

    def close(self, name: str) -> None:
        if name == "a":
            self._end_link()
        elif name == "title":
            self._end_title()
        elif name == "pre" and self._is_raw:
            self._is_raw = False
            self._parts.append("\n```")
        self._break(name)

    def page(self) -> Page:
        lines = (line.rstrip() for line in "".join(self._parts).split("\n"))
        text = _BLANK_LINES.sub("\n\n", "\n".join(lines)).strip()
        return Page(title=" ".join(" ".join(self._titles[:1]).split()), text=text)

    def _break(self, name: str) -> None:
        if self._is_raw:
            self._parts.append("\n" if name == "br" else "")
        elif _PARAGRAPHS.fullmatch(name):
            self._parts.append("\n\n")
        elif name == "br" or (_LINES.fullmatch(name) and not self._is_at_a_gap("\n")):
            self._parts.append("\n")

    def _is_at_a_gap(self, *gaps: str) -> bool:
        return not self._parts or self._parts[-1].endswith(gaps or (" ", "\n"))

    def _link_to(self, attributes: str) -> tuple[int, str] | None:
        href = _value(_HREF, attributes).strip()
        if not href or href.startswith("#") or len(href) > _LONGEST_LINK:
            return None
        try:
            url = urljoin(self._url, href)
        except ValueError:
            return None
        return (len(self._parts), url) if url.startswith(("http://", "https://")) else None

    def _end_link(self) -> None:
        if self._link is None:
            return
        start, url = self._link
        self._link = None
        label = "".join(self._parts[start:])
        if label.strip() and not self._is_raw:
            before = label[: len(label) - len(label.lstrip())]
            after = label[len(label.rstrip()) :]
            self._parts[start:] = [f"{before}[{' '.join(label.split())}]({url}){after}"]

    def _end_title(self) -> None:
        if self._title is not None:
            self._titles.append("".join(self._parts[self._title :]))
            del self._parts[self._title :]
            self._title = None


def _value(attribute: re.Pattern[str], attributes: str) -> str:
    match = attribute.search(attributes)
    return html.unescape(next((each for each in match.groups() if each), "")) if match else ""
