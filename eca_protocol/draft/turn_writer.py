"""The conversion of a turn's canonical contents to the draft's, for draft editors (W-50, W-52).

Texts are deltas, and each turn ends with exactly one closing text. A change of a file is written
when it waits for approval, otherwise when it is made. Contents that the draft lacks are omitted.
"""

from __future__ import annotations

from collections.abc import Iterator

from eca_protocol import messages as m
from eca_protocol.draft import models as d
from eca_protocol.draft.code_blocks import CodeBlocks
from eca_protocol.draft.file_changes import parse_changes

PREVIEWS = frozenset({"eca_preview_file_change", "preview_file_change"})
"""Tools that show a change and do not make it."""


class TurnWriter:
    """The state of one chat's turn as written to a draft editor.

    A system text is delayed until the next content: the last one of a turn (the reason of its
    failure, the prompts that a stop has dropped) becomes the closing text.

    Attributes:
        pending_approvals: the ids of the calls that wait for the user.
        continues_text: the next text of the model continues the last one.
        blocks: the finder of code blocks in the written text.
    """

    def __init__(self, chat_id: str) -> None:
        self.pending_approvals: set[str] = set()
        self.continues_text: bool = True
        self.blocks: CodeBlocks = CodeBlocks()
        self._chat_id = chat_id
        self._is_running = False
        self._tokens = 0
        self._descriptions: dict[str, str] = {}
        self._delayed: str | None = None
        self._ended_blocks: tuple[d.CodeBlock, ...] = ()

    def write(
        self, role: m.ChatRole, content: m.ChatContent
    ) -> Iterator[d.ChatContentReceivedParams]:
        """Yield the draft contents of a canonical content."""
        match content:
            case m.ChatTextContent(text=text):
                yield from self._write_text(role, text)
            case m.ChatUsageContent(tokens_used=tokens):
                self._tokens += tokens or 0
            case m.ChatProgressContent(state="finished"):
                yield self._closing()
            case m.ChatProgressContent():
                if not self._is_running:  # what came before was no part of the turn
                    self._is_running, self._tokens = True, 0
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
        """Return the content of a call that changes a file or waits for approval."""
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
