"""A chat's turn as a draft editor is told it: canonical contents in, the draft's out (W-50, W-52).

The rules it keeps: texts are deltas, and each turn ends with one closing text, whatever came
before; a change to a file is told when it waits for the user or else once it is made; nothing is
written that the draft does not have.
"""

from __future__ import annotations

from collections.abc import Iterator

from eca_protocol import messages as m
from eca_protocol.draft import models as d
from eca_protocol.draft.code_blocks import CodeBlocks
from eca_protocol.draft.file_changes import parse_changes

__all__ = ["PREVIEWS", "TurnWriter"]

PREVIEWS = frozenset({"eca_preview_file_change", "preview_file_change"})
"""Tools that show a change and do not make it."""


class TurnWriter:
    """What a draft editor was told of one chat's turn so far.

    A text of the server's own waits for what comes next: a turn's last word (why it failed, what
    a stop dropped) is its closing text.

    Attributes:
        asked: the ids of the calls that wait for the user.
        flows: whether a text of the model's goes on with what was told last.
        blocks: the blocks of code in what was told.
    """

    def __init__(self, chat_id: str) -> None:
        self.pending_approvals: set[str] = set()
        self.continues_text = True
        self.blocks = CodeBlocks()
        self._chat_id = chat_id
        self._tokens = 0
        self._descriptions: dict[str, str] = {}
        self._delayed: str | None = None
        self._ended_blocks: tuple[d.CodeBlock, ...] = ()

    def write(
        self, role: m.ChatRole, content: m.ChatContent
    ) -> Iterator[d.ChatContentReceivedParams]:
        """What the draft says of a content."""
        match content:
            case m.ChatTextContent(text=text):
                yield from self._write_text(role, text)
            case m.ChatUsageContent(tokens_used=tokens):
                self._tokens += tokens or 0
            case m.ChatProgressContent(state="finished"):
                yield self._closing()
            case m.ChatProgressContent():
                yield from self._write_delayed()
            case (
                m.ChatToolCallRunContent()
                | m.ChatToolCallRunningContent()
                | m.ChatToolCalledContent()
                | m.ChatToolCallRejectedContent()
            ):
                yield from self._write_delayed()
                yield from self._write_call(content)
                self.continues_text = False
            case m.ChatReasonStartedContent():
                yield from self._write_delayed()
                self.continues_text = False
            case _:
                pass

    def _write_text(self, role: m.ChatRole, text: str) -> Iterator[d.ChatContentReceivedParams]:
        if role == "user":
            return
        yield from self._write_delayed()
        if role == "assistant":
            yield self._text(text if self.continues_text else self._as_paragraph(text))
            self.continues_text = True
        else:
            self._delayed = self._as_paragraph(text)
            self.continues_text = False

    def _as_paragraph(self, text: str) -> str:
        """The text as a paragraph of its own; a block that was open ends before it."""
        line_ends = len(text) - len(text.lstrip("\n"))
        gap = "" if self.blocks.is_at_line_start else "\n" * max(0, 2 - line_ends)
        self._ended_blocks += self.blocks.close()
        return gap + text

    def _write_delayed(self) -> Iterator[d.ChatContentReceivedParams]:
        if self._delayed is not None:
            yield self._text(self._delayed)
            self._delayed = None

    def _text(self, text: str) -> d.ChatContentReceivedParams:
        blocks, self._ended_blocks = (*self._ended_blocks, *self.blocks.feed(text)), ()
        content = d.TextContent(text=text, code_blocks=blocks)
        return d.ChatContentReceivedParams(
            chat_id=self._chat_id, content=content, is_complete=False
        )

    def _closing(self) -> d.ChatContentReceivedParams:
        text = self._delayed or ""
        blocks = (*self._ended_blocks, *self.blocks.feed(text), *self.blocks.close())
        return d.ChatContentReceivedParams(
            chat_id=self._chat_id,
            content=d.TextContent(text=text, code_blocks=blocks),
            is_complete=True,
            metadata=d.Metadata(tokens_used=self._tokens),
        )

    def _write_call(
        self,
        call: m.ChatToolCallRunContent
        | m.ChatToolCallRunningContent
        | m.ChatToolCalledContent
        | m.ChatToolCallRejectedContent,
    ) -> Iterator[d.ChatContentReceivedParams]:
        self.pending_approvals.discard(call.id)
        description = self._descriptions.get(call.id)
        match call:
            case m.ChatToolCallRunContent(manual_approval=True):
                self.pending_approvals.add(call.id)
                self._descriptions[call.id] = call.summary or call.name
                yield self._change(call, manual_approval=True)
            case m.ChatToolCalledContent(error=True) if description is not None:
                yield self._text(self._as_paragraph(f"Failed: {description}."))
            case m.ChatToolCallRejectedContent() if description is not None:
                yield self._text(self._as_paragraph(f"Rejected: {description}."))
            case m.ChatToolCalledContent(error=False, details=m.FileChangeDetails()):
                if description is None and call.name not in PREVIEWS:
                    yield self._change(call, manual_approval=False)

    def _change(
        self, call: m.ChatToolCallRunContent | m.ChatToolCalledContent, *, manual_approval: bool
    ) -> d.ChatContentReceivedParams:
        """A call that changes a file, or that asks: then without a file if it names none."""
        details, description = call.details, call.summary or call.name
        if not isinstance(details, m.FileChangeDetails):
            content = d.FileChangeContent(description=description, manual_approval=manual_approval)
        else:
            changes = parse_changes(details.diff)
            if changes is None:
                added, removed = details.lines_added, details.lines_removed
                description += f" (too long to be shown: {added} lines added, {removed} removed)"
            content = d.FileChangeContent(
                description=description,
                manual_approval=manual_approval,
                file=details.path,
                changes=changes or (),
            )
        return d.ChatContentReceivedParams(
            chat_id=self._chat_id, content=content, is_complete=False
        )
