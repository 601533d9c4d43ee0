"""Invariants of any session, as models of the files, the wire and the history."""

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


CUT = "This call was stopped while it ran"


class Watch:
    """One chat as the wire tells of it, and what its folder must hold.

    The order of the contents is checked by the editor's fold.

    Attributes:
        asked: the calls that wait for the user.
        hangs: its turn does nothing until it is stopped.
        calls: the ids of all calls there ever were.
        sent: the prompts, which are shown in this order.
    """

    def __init__(self, tree: Tree) -> None:
        self.asked: set[str] = set()
        self.hangs = False
        self.running = False
        self.calls: list[str] = []
        self.sent: list[str] = []
        self._trees: list[Tree] = [tree]
        self._next = 0
        self._at_work: dict[str, Content] = {}

    def check_files(self, found: Tree) -> None:
        """Compare the folder with the calls' changes while nothing runs."""
        assert found in self._trees
        self._trees = [found]

    def delete(self) -> None:
        """The chat was deleted: what its running calls did is not reported any more."""
        for content in self._at_work.values():
            self._may_have_done(content)
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
            self._see_end(content)
        commands = [each["arguments"].get("command", "") for each in self._at_work.values()]
        self.hangs = any("sleep" in command for command in commands)

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
