"""Invariants of any session, as models of the wire and the history."""

import itertools
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from eca_server.models.history import Message, TextPart, ToolCallPart, ToolResultPart, repair
from tests.eca_server.agent.chat.editor import Content


def tree_of(folder: Path, below: str) -> dict[str, str | None]:
    """Return the files in one of a folder's folders."""
    return {
        str(path.relative_to(folder)): None if path.is_dir() else path.read_text()
        for path in (folder / below).rglob("*")
    }


class Watch:
    """One chat as the wire tells of it; the order of its contents is checked by the editor's fold.

    Attributes:
        asked: the calls that wait for the user.
        hangs: its turn does nothing until it is stopped.
        calls: the ids of all calls there ever were.
        sent: the prompts, which are shown in this order.
    """

    def __init__(self) -> None:
        self.asked: set[str] = set()
        self.hangs = False
        self.running = False
        self.calls: list[str] = []
        self.sent: list[str] = []
        self._next = 0
        self._at_work: dict[str, Content] = {}

    def delete(self) -> None:
        """The chat was deleted: nothing of it is shown any more."""
        self._next = len(self.sent)
        self._end_turn()

    def _end_turn(self) -> None:
        self.running = self.hangs = False
        self.asked.clear()
        self._at_work.clear()

    def see(self, role: str, content: Content) -> None:
        """The next content of the chat."""
        kind = content["type"]
        if kind == "progress" and content["state"] == "finished":
            self._end_turn()
        elif kind == "progress":
            self.running = True
        elif role == "user":
            self._next = self.sent.index(content["text"], self._next) + 1
        elif kind == "text":
            self.hangs = self.hangs or content["text"].strip() == "hanging"
        elif kind.startswith("toolCall"):
            self._see_call(kind, content)

    def _see_call(self, kind: str, content: Content) -> None:
        call_id = content["id"]
        if call_id not in self.calls:
            self.calls.append(call_id)
        self.asked.discard(call_id)
        if kind == "toolCallRun" and content["manualApproval"]:
            self.asked.add(call_id)
        elif kind == "toolCallRunning":
            self._at_work[call_id] = content
        elif kind == "toolCalled":
            self._at_work.pop(call_id, None)
        commands = [each["arguments"].get("command", "") for each in self._at_work.values()]
        self.hangs = any("sleep" in command for command in commands)


def check_history(history: Sequence[Message]) -> None:
    """Each call has its one result, behind it; and repaired it is valid for every API."""
    _check_results(history)
    valid = repair(history)
    if not history:
        return
    _check_results(valid)
    assert valid[0].role == "user"
    assert all(one.role != other.role for one, other in itertools.pairwise(valid))
    for position, message in enumerate(valid):
        assert message.parts
        assert all(part.text.strip() for part in message.parts if isinstance(part, TextPart))
        calls = [part.id for part in message.parts if isinstance(part, ToolCallPart)]
        if calls:
            results = valid[position + 1].parts
            assert [part.call_id for part in results if isinstance(part, ToolResultPart)] == calls


def _check_results(history: Sequence[Message]) -> None:
    calls: list[str] = []
    results: Counter[str] = Counter()
    for message in history:
        calls += [part.id for part in message.parts if isinstance(part, ToolCallPart)]
        told = [part.call_id for part in message.parts if isinstance(part, ToolResultPart)]
        assert set(told) <= set(calls)
        assert not told or message.role == "tool"
        results.update(told)
    assert results == Counter(calls)
    assert len(set(calls)) == len(calls)
