"""The contents of an ECA chat as updates of an ACP session."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise
from typing import Any, Final, TypeAlias

from eca_protocol import messages as eca
from eca_protocol.acp import messages as acp

_Call: TypeAlias = (
    eca.ChatToolCallPrepareContent
    | eca.ChatToolCallRunContent
    | eca.ChatToolCallRunningContent
    | eca.ChatToolCalledContent
    | eca.ChatToolCallRejectedContent
)

_KINDS: Final[tuple[tuple[str, acp.ToolKind], ...]] = (
    (r"read|view|directory_tree|list", "read"),
    (r"grep|search|find|glob", "search"),
    (r"edit|write|patch|create", "edit"),
    (r"move|rename", "move"),
    (r"delete|remove", "delete"),
    (r"shell|exec|command|run", "execute"),
    (r"fetch|web|http", "fetch"),
    (r"task|think|plan", "think"),
)
_HUNK: Final = re.compile(r"^@@ -(\d+)(?:,(\d+))? \+\d+(?:,\d+)? @@", re.MULTILINE)


def _kind(name: str) -> acp.ToolKind:
    return next((kind for words, kind in _KINDS if re.search(words, name)), "other")


def _side(lines: list[str], mark: str) -> str:
    """Return the text of one side of a hunk; a backslash line says that its end has no newline."""
    text = ""
    for line, following in pairwise([*lines, ""]):
        if line[:1] in {" ", mark}:
            text += line[1:] + ("" if following.startswith("\\") else "\n")
    return text


def _diffs(details: eca.FileChangeDetails) -> Iterator[acp.DiffOfCall]:
    """Yield the old and the new text of each hunk; a new file has no old text."""
    starts = [match.start() for match in _HUNK.finditer(details.diff)]
    for start, end in pairwise([*starts, len(details.diff)]):
        head, *lines = details.diff[start:end].removesuffix("\n").split("\n")
        old, new = _side(lines, "-"), _side(lines, "+")
        is_new = head.startswith("@@ -0,0")
        yield acp.DiffOfCall(path=details.path, old_text=None if is_new else old, new_text=new)


def _notes_in(diff: str) -> Iterator[acp.ContentOfCall]:
    """Yield the lines that are no part of a hunk: they say how much was cut (W-38)."""
    for line in diff.split("\n"):
        if line and line[0] not in " +-\\@":
            yield acp.ContentOfCall(content=_text(line))


def _shown(call: _Call) -> dict[str, Any]:
    """Return the members of a tool call that its name and details give."""
    members: dict[str, Any] = {
        "tool_call_id": call.id,
        "title": call.summary or call.name or "tool",
        "kind": _kind(call.name),
    }
    if isinstance(call.details, eca.FileChangeDetails):
        members["kind"] = "edit"
        members["content"] = (*_diffs(call.details), *_notes_in(call.details.diff))
        members["locations"] = (acp.ToolCallLocation(path=call.details.path),)
    if not isinstance(call, eca.ChatToolCallPrepareContent):
        members["raw_input"] = dict(call.arguments)
        command = call.arguments.get("command")
        if members["kind"] == "execute" and isinstance(command, str):  # the title may be cut
            members["content"] = (acp.ContentOfCall(content=_text(_fenced(command))),)
    return members


def _fenced(text: str) -> str:
    fence = "`" * max([3, *(len(run) + 1 for run in re.findall("`+", text))])
    return f"{fence}sh\n{text}\n{fence}"


def shown_call(call: eca.ChatToolCallRunContent) -> acp.ToolCallChange:
    """Return a tool call for a request for permission."""
    return acp.ToolCallChange(status="pending", **_shown(call))


def _text(text: str) -> acp.TextContent:
    return acp.TextContent(text=text)


class Updates:
    """The updates of a session, content by content.

    It remembers the announced tool calls and the last plan.
    """

    def __init__(self) -> None:
        self._calls: set[str] = set()
        self._plan = acp.Plan(entries=())

    def of(self, received: eca.ChatContentReceivedParams) -> Iterator[acp.SessionUpdate]:
        """Yield the updates that show a content."""
        content = received.content
        match content:
            case eca.ChatTextContent():
                chunk: type[Any] = acp.AgentMessageChunk
                if received.role == "user":
                    chunk = acp.UserMessageChunk
                yield chunk(content=_text(content.text))
            case eca.ChatReasonTextContent():
                yield acp.AgentThoughtChunk(content=_text(content.text))
            case eca.ChatURLContent():
                link = acp.ResourceLink(name=content.title, uri=content.url)
                yield acp.AgentMessageChunk(content=link)
            case eca.ChatImageContent():
                picture = acp.ImageContent(data=content.base64, mime_type=content.media_type)
                yield acp.AgentMessageChunk(content=picture)
            case eca.ChatMetadataContent():
                yield acp.SessionInfoUpdate(title=content.title)
            case eca.ChatUsageContent():
                yield from _usage(content)
            case _ if isinstance(content, _Call):
                yield from self._of_call(content)
            case _:
                return

    def _of_call(self, call: _Call) -> Iterator[acp.SessionUpdate]:
        is_new = call.id not in self._calls
        if isinstance(call, eca.ChatToolCallPrepareContent) and not is_new:
            return
        self._calls.add(call.id)
        members = _shown(call)
        match call:
            case eca.ChatToolCallRunningContent():
                members["status"] = "in_progress"
            case eca.ChatToolCalledContent():
                members["status"] = "failed" if call.error else "completed"
                members |= _outputs(call, members.get("content", ()))
            case eca.ChatToolCallRejectedContent():
                members["status"] = "failed"
            case _:
                members["status"] = "pending"
        yield (acp.ToolCall if is_new else acp.ToolCallUpdate)(**members)
        if isinstance(call.details, eca.TaskDetails) and self._plan != _plan(call.details):
            self._plan = _plan(call.details)
            yield self._plan


def _outputs(
    call: eca.ChatToolCalledContent, content: tuple[acp.ToolCallContent, ...]
) -> dict[str, Any]:
    texts = [each.text for each in call.outputs if isinstance(each, eca.ToolCallTextOutput)]
    if not any(isinstance(each, acp.DiffOfCall) for each in content):
        content += tuple(acp.ContentOfCall(content=_text(text)) for text in texts)
    return {"content": content, "raw_output": {"error": call.error, "texts": texts}}


def _plan(details: eca.TaskDetails) -> acp.Plan:
    states: dict[str, Any] = {"in-progress": "in_progress", "done": "completed"}
    entries = [
        acp.PlanEntry(
            content=task.subject,
            priority=task.priority if task.priority in {"high", "low"} else "medium",
            status=states.get(task.status, "pending"),
        )
        for task in details.tasks
    ]
    return acp.Plan(entries=tuple(entries))


def _usage(usage: eca.ChatUsageContent) -> Iterator[acp.SessionUpdate]:
    if usage.limit is None or usage.limit.context is None:
        return  # ACP requires the size of the context
    cost = None
    if usage.session_cost is not None:
        try:
            cost = acp.Cost(amount=float(usage.session_cost), currency="USD")
        except ValueError:
            cost = None
    yield acp.UsageUpdate(used=usage.session_tokens, size=usage.limit.context, cost=cost)
