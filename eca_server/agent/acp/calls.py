"""The tool calls of an agent, as it describes them piece by piece."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, Final

import attrs

from eca_protocol import json
from eca_protocol.acp import messages as acp
from eca_protocol.messages import FileChangeDetails
from eca_server.agent.acp.blocks import shown
from eca_server.agent.chat.tool_call import ToolCall
from eca_server.agent.mcp.tools import parts_within
from eca_server.agent.tools.diff import file_change
from eca_server.agent.tools.files import in_thread, printable
from eca_server.agent.tools.output import Cap, cut_mark
from eca_server.agent.tools.tool import Effect, PreparedCall, ToolError, ToolOutput
from eca_server.models.history import ImagePart, TextPart
from eca_server.printable import printable_line
from eca_server.workspace.boundary import Place, Workspace

_EFFECTS: Final[Mapping[str, Effect]] = {
    "read": "read",
    "search": "read",
    "think": "read",
    "edit": "write",
    "delete": "write",
    "move": "write",
}
_CHANGED: Final = (
    "Refused: a hook changed the input of this call, but the agent would run it as it was before."
)
_LONGEST_NAME: Final = 60
_LONGEST_TITLE: Final = 300
_MOST_PLACES: Final = 100  # that an approval of one call covers
_MOST_SEARCHED: Final = 2**16  # characters of its title and input that may name them
_MOST_COMPARED: Final = 2**20  # characters of a call's diffs: about 0.4 s of work
_BEFORE_NAME: Final = r"""\s\0"'`(\[{<,;:=@"""
_AFTER_NAME: Final = r"""\s\0"'`)\]}>,;:!?"""
_IS_PATH: Final = re.compile(r"[/\\]|\.[A-Za-z]")  # no word of a sentence
_MERGED: Final = ("title", "kind", "status", "content", "locations", "raw_input", "raw_output")


@attrs.define(eq=False)
class AgentCall:
    """A call of an agent, merged from its updates.

    Attributes:
        call: the call as the client knows it.
        is_prepared: the text of its arguments was shown.
        is_written: its arguments are part of the answer.
        is_asking: its permission is being decided.
        shown: the places that a question about the prepared call names.
        approved: the places of the call, if the policy has approved it; those shown, if the user
            has.
        approves_changes: the approved call was one that changes its places, or has shown a change.
        command: the approved command, if it runs one.
    """

    call: ToolCall
    title: str = ""
    kind: str | None = None
    status: str | None = None
    content: tuple[acp.ToolCallContent, ...] = ()
    locations: tuple[acp.ToolCallLocation, ...] = ()
    raw_input: Any = None
    raw_output: Any = None
    is_prepared: bool = False
    is_written: bool = False
    is_asking: bool = False
    shown: tuple[Place, ...] = ()
    approved: tuple[Place, ...] = ()
    approves_changes: bool = False
    command: str | None = None

    def merge(self, change: acp.ToolCall | acp.ToolCallChange) -> None:
        """Take the changed members."""
        for name in _MERGED:
            value = getattr(change, name)
            if value is not None:
                setattr(self, name, value)

    @property
    def arguments(self) -> Mapping[str, Any]:
        """The input of the call, if it is an object."""
        return self.raw_input if isinstance(self.raw_input, dict) else {}

    @property
    def run_command(self) -> str | None:
        """The command that an `execute` runs, if the input names it."""
        command = self.arguments.get("command")
        if self.kind != "execute":
            return None
        if isinstance(command, list) and all(isinstance(each, str) for each in command):
            return shlex.join(command)
        return command if isinstance(command, str) and command.strip() else None

    @property
    def changes_files(self) -> bool:
        """True if the call changes the files that it names, or shows a change of them."""
        return _EFFECTS.get(self.kind or "") == "write" or any(self._diffs)

    @property
    def _diffs(self) -> Iterator[acp.DiffOfCall]:
        yield from (each for each in self.content if isinstance(each, acp.DiffOfCall))

    @property
    def paths(self) -> tuple[str, ...]:
        """The paths on which the call works."""
        named = [*(each.path for each in self._diffs), *(each.path for each in self.locations)]
        return tuple(dict.fromkeys(named))

    def shown_places(self, places: Sequence[Place]) -> tuple[Place, ...]:
        """Return the places that a question about the call names, among the first ones.

        Diffs, the title and the input are shown, locations are not.
        """
        diffs = {diff.path for diff in self._diffs}
        texts = sorted([shown_title(self.title), *_strings_in(self.arguments)], key=len)
        text = "\0".join(["", *texts, ""])
        if len(text) > _MOST_SEARCHED:
            text = f"{text[:_MOST_SEARCHED]}-"  # the cut ends no name
        return tuple(
            place
            for place in places[:_MOST_PLACES]
            if place.text in diffs or _is_named(place, text)
        )

    def details(self, cap: Cap) -> FileChangeDetails | None:
        """Return all changes of files as one, named after the first file; None: there are none."""
        changes, size = [], 0
        for diff in self._diffs:
            size += len(diff.old_text or "") + len(diff.new_text)
            changes.append(_change(diff, cap) if size <= _MOST_COMPARED else _uncompared(diff))
        if not changes:
            return None
        first, *more = changes
        texts = [first.diff]
        for each in more:
            texts += [] if each.path == first.path else [f"--- {each.path}\n+++ {each.path}"]
            texts.append(each.diff)
        return FileChangeDetails(
            path=first.path,
            diff="\n".join(texts),
            lines_added=sum(each.lines_added for each in changes),
            lines_removed=sum(each.lines_removed for each in changes),
        )

    def output(self, terminal: Callable[[str], str], cap: Cap) -> ToolOutput:
        """Return the result within the cap; `terminal` returns the output of a terminal."""
        parts: list[TextPart | ImagePart] = []
        for each in self.content:
            match each:
                case acp.ContentOfCall():
                    parts.append(shown(each.content))
                case acp.TerminalOfCall():
                    parts.append(TextPart(terminal(each.terminal_id)))
                case acp.DiffOfCall():
                    parts.append(TextPart(f"Changed {printable(each.path)}."))
        if not parts and self.raw_output is not None:
            raw = self.raw_output
            parts.append(TextPart(raw if isinstance(raw, str) else json.dumps(raw).decode()))
        is_error = self.status == "failed"
        if not any(isinstance(each, ImagePart) or each.text for each in parts):
            parts = [TextPart("Failed." if is_error else "Done.")]
        shown_parts = tuple(parts_within(parts, cap))
        return ToolOutput(parts=shown_parts, is_error=is_error, details=self.details(cap))


@attrs.frozen(kw_only=True)
class AgentTool:
    """The tool of one call of an agent, for the policy and the hooks.

    Attributes:
        agent_call: the call as it is asked about: updates of it may come meanwhile.
        workspace: resolves its paths.
        cap: the limit of its diff.
    """

    agent_call: AgentCall
    workspace: Workspace
    cap: Cap

    description: ClassVar = ""
    parameters: ClassVar[Mapping[str, Any]] = {"type": "object"}

    @property
    def name(self) -> str:
        """The kind of the call, or its title if it has no kind."""
        return self.agent_call.call.naming.name

    @property
    def effect(self) -> Effect:
        """The effect of the kind."""
        return _EFFECTS.get(self.agent_call.kind or "", "run")

    def summary(self, arguments: Mapping[str, Any]) -> str:
        """Return the title."""
        return shown_title(self.agent_call.title)

    async def prepare(self, arguments: Mapping[str, Any]) -> PreparedCall:
        """Resolve the paths of the call.

        Raises:
            ToolError: a path is invalid, or a hook has changed the input.
        """
        call = self.agent_call
        if arguments != call.arguments:
            raise ToolError(_CHANGED)

        def locate() -> tuple[tuple[Place, ...], tuple[Place, ...]]:
            places = tuple(map(self.workspace.locate, call.paths))
            return places, call.shown_places(places)

        places, call.shown = await in_thread(locate)
        return PreparedCall(
            run=_never,
            summary=self.summary(arguments),
            places=places,
            details=call.details(self.cap),
            command=call.run_command,
            folder=str(self.workspace.roots[0].real_path) if self.workspace.roots else "",
        )


async def _never() -> ToolOutput:
    raise ToolError("An agent runs its calls by itself.")


def _change(diff: acp.DiffOfCall, cap: Cap) -> FileChangeDetails:
    return file_change(printable(diff.path), diff.old_text or "", diff.new_text, cap=cap)


def _uncompared(diff: acp.DiffOfCall) -> FileChangeDetails:
    """Return the details of a change that takes too long to compare while other chats wait."""
    old, new = diff.old_text or "", diff.new_text
    return FileChangeDetails(
        path=printable(diff.path),
        diff=cut_mark(len(old.encode()) + len(new.encode()), "too large to be compared"),
        lines_added=new.count("\n"),
        lines_removed=old.count("\n"),
    )


def _is_named(place: Place, text: str) -> bool:
    """Return whether a text has a path of a place as a whole word.

    A name that may be a word of a sentence (`test`) must be in quotes, or the whole text.
    """
    names = [place.text, str(place.path), str(place.real_path)]
    if place.root is not None:
        names.append(str(place.real_path.relative_to(place.root.real_path)))
    return any(name in text and re.search(_pattern_of(name), text) for name in names)


def _pattern_of(name: str) -> str:
    if _IS_PATH.search(name):
        return rf"(?<=[{_BEFORE_NAME}]){re.escape(name)}(?=[{_AFTER_NAME}]|\.\s)"
    return rf"""([\0"'`]){re.escape(name)}\1"""


def _strings_in(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for each in value.values() if isinstance(value, dict) else value:
            yield from _strings_in(each)


def shown_title(title: str) -> str:
    """Return the title of a call on one line."""
    return printable_line(title, longest=_LONGEST_TITLE)


def tool_name(kind: str | None, title: str) -> str:
    """Return the name of a call's tool: its kind, or its title if that says more."""
    if kind not in {None, "other", "switch_mode"}:
        return str(kind)
    return printable_line(title, longest=_LONGEST_NAME).strip() or "tool"
