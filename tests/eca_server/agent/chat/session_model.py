"""Invariants of any session, as models of the files, the wire and the history."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from eca_server.models.history import Message, TextPart, ToolCallPart, ToolResultPart, repair
from tests.eca_server.agent.chat.editor import Content

Tree = Mapping[str, str | None]
"""The files below a folder with their texts; None for a directory."""

JUDGED = {"eca_write_file", "eca_edit_file", "eca_move_file"}
"""The tools whose calls the models can tell to be possible or not."""


def tree_of(folder: Path, below: str) -> dict[str, str | None]:
    """Return the files in one of a folder's folders."""
    return {
        str(path.relative_to(folder)): None if path.is_dir() else path.read_text()
        for path in (folder / below).rglob("*")
    }


def after(tree: Tree, tool: str, arguments: Mapping[str, Any]) -> Tree | None:
    """The files after a call; None if it cannot be done."""
    match tool, arguments:
        case "eca_write_file", {"path": path, "content": content}:
            return _written(tree, path, content)
        case "eca_edit_file", {"path": path, "original_content": old, "new_content": new}:
            text = tree.get(path)
            return None if text is None or text.count(old) != 1 else {
                **tree, path: text.replace(old, new)
            }  # fmt: skip
        case "eca_move_file", {"source": source, "destination": destination}:
            return _moved(tree, source, destination)
        case "eca_shell_command", {"command": command}:
            log = command.split()[-1]
            return {**tree, log: (tree.get(log) or "") + "x"}
        case _:
            return None if tool in JUDGED else tree


def _written(tree: Tree, path: str, content: str) -> Tree | None:
    above = [str(each) for each in Path(path).parents][:-2]
    if any(tree.get(each) is not None for each in above) or (path in tree and tree[path] is None):
        return None
    return {**tree, **dict.fromkeys(above), path: content}


def _moved(tree: Tree, source: str, destination: str) -> Tree | None:
    if source not in tree or destination in tree or f"{destination}/".startswith(f"{source}/"):
        return None
    left = {path: text for path, text in tree.items() if not f"{path}/".startswith(f"{source}/")}
    made = _written(left, destination, "")
    moved = {
        destination + path.removeprefix(source): text
        for path, text in tree.items()
        if f"{path}/".startswith(f"{source}/")
    }
    return None if made is None else {**made, **moved}


FOLLOWING = {
    None: {"Prepare"},
    "Prepare": {"Prepare", "Run", "Rejected"},
    "Run": {"Running", "Called", "Rejected"},
    "Running": {"Called"},
}
"""The contents of a call that may follow each one (W-30)."""

CUT = "This call was stopped while it ran"


class Watch:
    """One chat as the wire tells of it, and what its folder must hold.

    Attributes:
        asked: the calls that wait for the user.
        hangs: its turn does nothing until it is stopped.
        calls: the ids of all calls there ever were.
    """

    def __init__(self, tree: Tree) -> None:
        self.asked: set[str] = set()
        self.hangs = False
        self.calls: list[str] = []
        self.sent: list[str] = []
        self._trees: list[Tree] = [tree]
        self._next = 0
        self._forget_turn()

    def _forget_turn(self) -> None:
        self.running = False
        self.hangs = False
        self.asked.clear()
        self._echoed = False
        self._reasons: set[str] = set()
        self._open: dict[str, tuple[str, Content]] = {}
        self._prepared: list[str] = []

    def check_files(self, found: Tree) -> None:
        """Compare the folder with the calls' changes while nothing runs."""
        assert found in self._trees
        self._trees = [found]

    def delete(self) -> None:
        """The chat was deleted: nothing may be said of it any more."""
        for kind, content in self._open.values():
            if kind == "Running":
                self._may_have_done(content)
        self._next = len(self.sent)
        self._forget_turn()

    def see(self, role: str, content: Content) -> None:
        """The next content of the chat."""
        kind = content["type"]
        begins = kind == "progress" and not self.running
        assert begins or self.running
        assert begins or self._echoed or (role, kind) == ("user", "text")
        if begins:
            assert content["state"] == "running"
            self.running = True
        elif content.get("state") == "finished":
            assert not self._reasons
            assert not self._open
            self._forget_turn()
        elif role == "user":
            assert not self._echoed
            self._echoed = True
            self._next = self.sent.index(content["text"], self._next) + 1
        elif kind == "text":
            self.hangs = self.hangs or content["text"].strip() == "hanging"
        elif kind == "reasonStarted":
            self._reasons.add(content["id"])
        elif kind == "reasonFinished":
            self._reasons.remove(content["id"])
        elif kind.startswith("toolCall"):
            self._see_call("Called" if kind == "toolCalled" else kind[len("toolCall") :], content)

    def _see_call(self, kind: str, content: Content) -> None:
        call_id = content["id"]
        if call_id not in self._open:
            assert call_id not in self.calls
            self.calls.append(call_id)
        before = self._open[call_id][0] if call_id in self._open else None
        assert kind in FOLLOWING[before]
        if kind == "Prepare" and call_id not in self._prepared[-1:]:
            assert call_id not in self._prepared
            self._prepared.append(call_id)
        self.asked.discard(call_id)
        if kind == "Run" and content["manualApproval"]:
            self.asked.add(call_id)
        if kind in ("Running", "Called") and "sleep" in content["arguments"].get("command", ""):
            self.hangs = kind == "Running"
        if kind == "Called":
            self._see_end(content)
        if kind in ("Called", "Rejected"):
            self._open.pop(call_id, None)
        else:
            self._open[call_id] = (kind, content)

    def _see_end(self, content: Content) -> None:
        told = "".join(output["text"] for output in content["outputs"])
        if content["error"] and told.startswith(CUT):
            self._may_have_done(content)
            return
        tool, arguments = content["name"], content["arguments"]
        following = [after(tree, tool, arguments) for tree in self._trees]
        if content["error"]:
            assert tool not in JUDGED or None in following
            return
        self._trees = [each for each in following if each is not None]
        assert self._trees
        if tool == "eca_read_file" and len(self._trees) == 1:
            text = self._trees[0].get(arguments["path"], "outside") or "(the file is empty)"
            assert told == text.removesuffix("\n")

    def _may_have_done(self, content: Content) -> None:
        done = [after(tree, content["name"], content["arguments"]) for tree in self._trees]
        self._trees += [each for each in done if each is not None and each not in self._trees]


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
