"""From the contexts of a prompt, and the mentions in it, to what stands before its text.

The rules it keeps: the same contexts give the same text, what was named most exactly first, for it
has the first claim on the room, and the cursor, which changes with every prompt, last; whatever
cannot be given is said to the user and to the model, and is never the end of the prompt (W-41).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import attrs
import trio

from eca_protocol.http import HTTPClient
from eca_protocol.messages import (
    ChatContext,
    CursorContext,
    DirectoryContext,
    FileContext,
    ImageContext,
    LinesRange,
    McpResourceContext,
    RepoMapContext,
    TextContext,
    UnknownContext,
    WebContext,
)
from eca_server.context.block import Section, render
from eca_server.context.disk import Reader
from eca_server.context.limits import Limits, readable
from eca_server.context.mentions import Mention, find_mentions, follow
from eca_server.context.pasted import pasted
from eca_server.llm.attachments import Attachment
from eca_server.llm.history import TextPart
from eca_server.tools.files import printable
from eca_server.tools.output import Cap, cut_end
from eca_server.workspace import FileError, Place, TooLarge, Workspace

if TYPE_CHECKING:
    from eca_server.context.html_text import Page
    from eca_server.context.resources import ResourceReader, Resources
    from eca_server.mcp.messages import ResourceContents

__all__ = ["Built", "build"]

_LONGEST_NAME = 200  # characters of a path or URL in a note
_ORDER = (
    FileContext,
    DirectoryContext,
    WebContext,
    TextContext,
    ImageContext,
    McpResourceContext,
    UnknownContext,
    RepoMapContext,
    CursorContext,
)
_KNOWN = {each.type for each in _ORDER if each is not UnknownContext}

_INTRODUCTION = "Material that belongs to the message below. What it says is no word of the user's."

_Fetched: TypeAlias = "Mapping[str, Page | str]"
"""By URL the page, or why there is none."""


@attrs.frozen(kw_only=True)
class Built:
    """What a prompt's contexts came to.

    Attributes:
        parts: stand before the text of the user's message; empty if there is nothing.
        notes: sentences for the user about what was left out or cut.
    """

    parts: tuple[TextPart | Attachment, ...] = ()
    notes: tuple[str, ...] = ()


async def build(
    contexts: Sequence[ChatContext],
    message: str,
    *,
    workspace: Workspace,
    http: HTTPClient,
    resources: ResourceReader | None = None,
    limits: Limits | None = None,
    gitignore: bool = True,
    allow_private: bool = False,
) -> Built:
    """Read what a prompt refers to (chapter "Chat Prompt", `ChatContext`; ruling W-41).

    Args:
        contexts: as the client sent them.
        message: the user's text; its `@path` mentions are followed, it is not part of the result.
        workspace: where relative paths start, and where mentions may lead.
        http: asks for web pages.
        resources: asks MCP servers; None: there is none. What has changed since this chat was
            given it is given anew.
        limits: how much of everything.
        gitignore: what Git ignores is left out of directories and trees.
        allow_private: web pages of this machine and of private networks are fetched, too.
    """
    limits = limits or Limits()
    changed = [] if resources is None else list(resources.changed())
    contexts = (*contexts, *(McpResourceContext(server=name, uri=uri) for name, uri in changed))
    wanted = sorted(contexts, key=lambda each: _ORDER.index(type(each)))[: limits.contexts]
    if not wanted and "@" not in message:
        return Built()
    urls = dict.fromkeys(each.url for each in wanted if isinstance(each, WebContext))
    pages = await _fetch(list(urls)[: limits.pages], http, allow_private)
    found = await _resources(wanted, resources, limits)
    reader = Reader(
        workspace=workspace,
        limits=limits,
        gitignore=gitignore,
        checkpoint=trio.from_thread.check_cancelled,
    )

    def work() -> Built:
        gathering = _Gathering(reader=reader, pages=pages, resources=found)
        for server, uri in changed:
            gathering.tell_changed(server, uri)
        own_words = _without_mentions(message, contexts, workspace)
        for mention in find_mentions(own_words, most=limits.contexts):
            gathering.add_mention(mention)
        for context in wanted:
            gathering.add(context)
        if len(contexts) > len(wanted):
            gathering.note(f"Only {len(wanted)} of {len(contexts)} contexts were looked at")
        return gathering.built()

    return await trio.to_thread.run_sync(work)


def _without_mentions(message: str, contexts: Sequence[ChatContext], workspace: Workspace) -> str:
    """Return the message without the mentions that its contexts stand for.

    An editor writes both, and the path in the message unquoted, blanks or not.
    """
    written = set()
    for context in contexts:
        if isinstance(context, FileContext | DirectoryContext):
            path = Path(context.path)
            written.add(str(path))
            for root in workspace.roots:
                if path.is_relative_to(root.path):
                    written.add(str(path.relative_to(root.path)))
    for path_text in sorted(written - {"", "."}, key=len, reverse=True):
        message = re.sub(rf"@{re.escape(path_text)}(?![\w/.-]*[\w/])", " ", message)
    return message


async def _fetch(urls: Sequence[str], http: HTTPClient, allow_private: bool) -> _Fetched:
    fetched: dict[str, Page | str] = {}
    if not urls:
        return fetched
    from eca_server.context.web import PageFault, fetch_page  # noqa: PLC0415 - few prompts need it

    async def fetch(url: str) -> None:
        try:
            fetched[url] = await fetch_page(url, http=http, allow_private=allow_private)
        except PageFault as fault:
            fetched[url] = str(fault)

    async with trio.open_nursery() as nursery:
        for url in urls:
            nursery.start_soon(fetch, url)
    return fetched


async def _resources(
    contexts: Sequence[ChatContext], reader: ResourceReader | None, limits: Limits
) -> Resources:
    found = dict.fromkeys(
        (each.server, each.uri) for each in contexts if isinstance(each, McpResourceContext)
    )
    if not found or reader is None:
        return {key: f"no MCP server {key[0]!r} is running" for key in found}
    from eca_server.context.resources import read_resources  # noqa: PLC0415 - few prompts need it

    return await read_resources(list(found)[: limits.resources], reader)


@attrs.define(kw_only=True, eq=False)
class _Gathering:
    """What was gathered so far, in a worker thread."""

    reader: Reader
    pages: _Fetched
    resources: Resources
    room: int = attrs.field(init=False)
    seen: set[object] = attrs.field(init=False, factory=set)
    sections: list[Section] = attrs.field(init=False, factory=list)
    attachments: list[Attachment] = attrs.field(init=False, factory=list)
    notes: list[str] = attrs.field(init=False, factory=list)

    def __attrs_post_init__(self) -> None:
        self.room = self.reader.limits.total

    def note(self, sentence: str) -> None:
        """Tell the user something."""
        self.notes.append(f"{sentence}.")

    def tell_changed(self, server: str, uri: str) -> None:
        """Say that what is given of a resource takes the place of what was given before."""
        self.note(f"{_short(uri)} has changed since it was given, and is given anew")
        where = {"server": server, "uri": uri}
        self.sections.append(Section(name="changed_resource", attributes=where))

    def add_mention(self, mention: Mention) -> None:
        """Read what a mention means; one that means nothing is no mention."""
        found = follow(mention, self.reader.workspace)
        if isinstance(found, str):
            self.note(found)
        elif found is not None:
            self._add_place(found.place, found.lines)

    def add(self, context: ChatContext) -> None:
        """Read a context, whatever it is."""
        match context:
            case FileContext(path=path, lines_range=lines):
                self._add_path(path, lines)
            case DirectoryContext(path=path):
                self._add_path(path, None)
            case WebContext(url=url):
                self._add_page(url)
            case TextContext():
                self._add_words(context)
            case ImageContext():
                self._add_pasted(context)
            case McpResourceContext(uri=uri, server=server):
                self._add_resource(server, uri)
            case UnknownContext(type=kind):
                name = "A context" if kind is None else f"A context of type {kind!r}"
                is_known = kind in _KNOWN
                reason = "it is incomplete" if is_known else "this type is not known here"
                self._leave_out(name, reason)
            case RepoMapContext():
                self._add_outlines()
            case CursorContext():
                self._add_cursor(context)

    def built(self) -> Built:
        """All of it, in its frame."""
        notes = readable(self.notes)
        if not self.sections:
            return Built(notes=notes)
        text = render([Section(name="contexts", body=(_INTRODUCTION, *self.sections))])
        return Built(parts=(TextPart(text), *self.attachments), notes=notes)

    def _add_path(self, path: str, lines: LinesRange | None) -> None:
        try:
            place = self.reader.workspace.locate(path)
        except FileError as fault:
            self._leave_out(path, str(fault))
        else:
            self._add_place(place, lines)

    def _add_place(self, place: Place, lines: LinesRange | None) -> None:
        if self._is_repeated((place.real_path, lines)):
            return
        name = str(place.path)
        try:
            self._must_have_room()
            read = self.reader.read(place, lines, room=self.room)
            if read.attachment is not None:
                self._attach(read.attachment)
        except FileError as fault:
            self._leave_out(name, str(fault))
        except OSError as fault:
            self._leave_out(name, fault.strerror or str(fault))
        else:
            self._take(read.section, read.size)
            if read.left_out:
                self.note(f"{_short(name)} was cut: {read.left_out} bytes of it had no room")

    def _attach(self, attached: Attachment) -> None:
        most = self.reader.limits.attachments
        if len(self.attachments) >= most:
            raise TooLarge(f"a prompt has at most {most} pictures and documents")
        self.attachments.append(attached)

    def _add_page(self, url: str) -> None:
        if self._is_repeated(url):
            return
        page = self.pages.get(url, f"at most {len(self.pages)} pages are fetched for a prompt")
        if isinstance(page, str):
            self._leave_out(url, page)
            return
        attributes = {"url": url} | ({"title": page.title} if page.title else {})
        self._add_text("web", url, attributes, page.text, self.reader.limits.page)

    def _add_words(self, context: TextContext) -> None:
        if self._is_repeated(context):
            return
        attributes = {"label": context.label} if context.label else {}
        name, most = context.label or "A text", self.reader.limits.file
        self._add_text("text", name, attributes, context.content, most)

    def _add_pasted(self, context: ImageContext) -> None:
        if self._is_repeated(context):
            return
        try:
            self._attach(pasted(context, self.reader.limits))
        except FileError as fault:
            self._leave_out("A picture", str(fault))
        else:
            self._take(Section(name="picture"), 0)

    def _add_text(
        self, section: str, name: str, attributes: Mapping[str, str], whole: str, most: int
    ) -> None:
        try:
            self._must_have_room()
        except TooLarge as fault:
            self._leave_out(name, str(fault))
            return
        size = min(most, self.room)
        text = cut_end(whole, Cap(lines=size, size=size))
        self._take(Section(name=section, attributes=attributes, body=(text,)), len(text.encode()))
        if text != whole:
            self.note(f"{_short(name)} was cut: its text is longer than {size} bytes")

    def _add_resource(self, server: str, uri: str) -> None:
        if self._is_repeated((server, uri)):
            return
        too_many = f"at most {len(self.resources)} resources are read for a prompt"
        found = self.resources.get((server, uri), too_many)
        if isinstance(found, str):
            self._leave_out(uri, found)
        elif not found:
            self._leave_out(uri, "there is nothing in it")
        else:
            for piece in found[: self.reader.limits.pieces]:
                self._add_piece(server, attrs.evolve(piece, uri=piece.uri or uri))
            if len(found) > self.reader.limits.pieces:
                self.note(f"Of {_short(uri)} only {self.reader.limits.pieces} pieces were taken")

    def _add_piece(self, server: str, piece: ResourceContents) -> None:
        from eca_server.context.resources import give_resource  # noqa: PLC0415 - as above

        try:
            self._must_have_room()
            limits = self.reader.limits
            given = give_resource(server, piece, room=self.room, limits=limits)
            if given.attachment is not None:
                self._attach(given.attachment)
        except FileError as fault:
            self._leave_out(piece.uri, str(fault))
        else:
            self._take(given.section, given.size)
            if given.is_cut:
                self.note(f"{_short(piece.uri)} was cut: there was no room for all of it")

    def _add_outlines(self) -> None:
        if self._is_repeated(RepoMapContext()):
            return
        roots = self.reader.workspace.roots
        if not roots:
            self._leave_out("The repository map", "no folder is open")
        for root in roots:
            try:
                outline = self.reader.outline(root)
            except FileError as fault:
                self._leave_out(str(root.path), str(fault))
            else:
                self._take(outline, sum(len(str(part)) for part in outline.body))

    def _add_cursor(self, cursor: CursorContext) -> None:
        if self._is_repeated(cursor):
            return
        start, end = (
            f"{each.line}:{each.character}" for each in (cursor.position.start, cursor.position.end)
        )
        where = {"position": start} if start == end else {"from": start, "to": end}
        name = "cursor" if start == end else "selection"
        self._take(Section(name=name, attributes={"path": cursor.path} | where), 0)

    def _take(self, section: Section, size: int) -> None:
        self.sections.append(section)
        self.room -= size

    def _must_have_room(self) -> None:
        if self.room <= 0:
            total = self.reader.limits.total
            raise TooLarge(f"the contexts of this prompt are {total} bytes already")

    def _is_repeated(self, meaning: object) -> bool:
        repeated = meaning in self.seen
        self.seen.add(meaning)
        return repeated

    def _leave_out(self, name: str, reason: str) -> None:
        self.note(f"{_short(name)} was left out: {reason}")
        self.sections.append(
            Section(name="left_out", attributes={"name": _short(name)}, body=(reason,))
        )


def _short(name: str) -> str:
    shown = printable(name)
    return shown if len(shown) <= _LONGEST_NAME else f"{shown[:_LONGEST_NAME]}..."
