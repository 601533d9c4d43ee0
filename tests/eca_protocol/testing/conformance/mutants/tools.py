"""Mutants of tool calls."""

from typing import Any

import anyio

from eca_protocol.process import Child
from tests.eca_protocol.testing.conformance.mutants.registry import breaks
from tests.eca_protocol.testing.conformance.reference.chat import Turn
from tests.eca_protocol.testing.conformance.reference.tool_call import ToolCall
from tests.eca_protocol.testing.conformance.reference.tools import (
    EditFile,
    FileChange,
    ShellCommand,
    Tool,
    Toolbox,
    ToolFault,
)


@breaks("W-30a", "Announces a call that was not prepared.")
class NeverPrepared(ToolCall):
    def prepare_rest(self) -> None:
        self._prepared = len(self.arguments_text)


@breaks("W-30a", "Forgets to close the second call of an answer.")
class NeverClosed(ToolCall):
    def called(self, output: str, *, error: bool) -> None:
        if self is self.turn.calls[0]:
            super().called(output, error=error)
            return
        say, self.say = self.say, lambda kind, **fields: None  # type: ignore[method-assign] - silent
        super().called(output, error=error)
        self.say = say  # type: ignore[method-assign] - as it was


@breaks("TOOL-3", "Announces the second call of an answer twice.")
class RunTwice(ToolCall):
    def announce(self, *, manual: bool) -> None:
        super().announce(manual=manual)
        if self is not self.turn.calls[0]:
            super().announce(manual=manual)


@breaks("TOOL-6", "Tells the result of the second call of an answer twice.")
class CalledTwice(ToolCall):
    def say(self, kind: str, **fields: Any) -> None:
        super().say(kind, **fields)
        if kind == "toolCalled" and self is not self.turn.calls[0]:
            super().say(kind, **fields)


@breaks("W-30b", "Repeats the arguments from their beginning with every piece.")
class WholeArgumentsEachTime(ToolCall):
    def say(self, kind: str, **fields: Any) -> None:
        if kind == "toolCallPrepare":
            fields = {"argumentsText": self.arguments_text}
        super().say(kind, **fields)


@breaks("W-30c", "Writes arguments where there are none that can be read.")
class UnreadableIsText(ToolCall):
    def say(self, kind: str, **fields: Any) -> None:
        if "arguments" in fields and self.unreadable:
            fields["arguments"] = {"unreadable": True}
        super().say(kind, **fields)


@breaks("TOOL-7", "Says of every file that it was read.")
class FailureIsSilent(ToolCall):
    def say(self, kind: str, **fields: Any) -> None:
        if kind == "toolCalled" and self._began and self.requested_name == "eca_read_file":
            fields["error"] = False
        super().say(kind, **fields)


@breaks("W-30e", "Rejects a call of a tool that there is not.")
class UnknownToolsAreRejected(ToolCall):
    def called(self, output: str, *, error: bool) -> None:
        if self.tool is None:
            self.rejected("user-config")
        else:
            super().called(output, error=error)


@breaks("W-30h", "Shows the pieces of all calls as they come.")
class MixesPreparation(Turn):
    def take_call(self, piece: dict[str, Any]) -> None:
        super().take_call(piece)
        for call in self.calls:
            call.prepare_rest()


class _Ambiguous(EditFile):
    def change(self, arguments: dict[str, Any]) -> FileChange:
        try:
            return super().change(arguments)
        except ToolFault as fault:
            path = self.path(arguments)
            raise ToolFault(f"3 words: {path} is ambiguous") from fault


@breaks("W-38b", "Does not say how often a file has the text that an edit is to replace.")
class MatchesAreNotCounted(Toolbox):
    natives = tuple(_Ambiguous if kind is EditFile else kind for kind in Toolbox.natives)


@breaks("W-6b", "Passes outputs on whole.")
class OutputsAreEndless(Toolbox):
    cap = 10**9


@breaks("W-38a", "Does not say that an output was cut.")
class CutInSilence(ToolCall):
    def called(self, output: str, *, error: bool) -> None:
        super().called(output.partition("\n... cut,")[0], error=error)


@breaks("W-33e", "Does not know a tool that is denied by an older name, with two underscores.")
class OneSpelling(Toolbox):
    def verdict(self, tool: Tool, behavior: str, arguments: dict[str, Any]) -> str:
        verdict = super().verdict(tool, behavior, arguments)
        denied = self._owner.config.get("toolCall", {}).get("approval", {}).get("deny", ())
        is_old = tool.name.replace("eca_", "eca__", 1) in denied
        return "allow" if is_old and not self.is_withheld(tool, behavior) else verdict


@breaks("W-23b", "Takes a while to stop when a tool runs.")
class ToolsAreStoppedSlowly(Turn):
    async def end(self) -> None:
        ran = any(call._began and call.requested_name == "eca_shell_command" for call in self.calls)
        if self.stopped and ran and self.server.state == "ready":
            with anyio.CancelScope(shield=True):
                await anyio.sleep(1.5)
        await super().end()


@breaks("TOOL-1", "Prepares a call when its arguments are whole.")
class PreparedAtOnce(ToolCall):
    is_whole = False

    def prepare_rest(self) -> None:
        if self.is_whole:
            super().prepare_rest()

    def end_preparing(self) -> None:
        self.is_whole = True
        super().end_preparing()


@breaks("W-33f", "Calls a parameter otherwise than people know it.")
class OtherParameters(Toolbox):
    def listed(self, tools: Any, behavior: str) -> list[dict[str, Any]]:
        listed = super().listed(tools, behavior)
        for tool in listed:
            properties = tool["parameters"].get("properties", {})
            if "new_content" in properties:
                properties["replacement"] = properties.pop("new_content")
        return listed


@breaks("ARROW:chat-tool-call-11", "Does not tell the model what came of a command.")
class ResultsAreKept(ToolCall):
    def close(self, result: str, kind: str, **fields: Any) -> None:
        is_command = kind == "toolCalled" and self.requested_name == "eca_shell_command"
        super().close("It was called." if is_command else result, kind, **fields)


class _Lingering(ShellCommand):
    """A command that is ended a while after `shutdown`."""

    async def end(self, child: Child) -> None:
        if self.owner.state == "shutdown":
            self.owner.tasks.start_soon(self.end_later, child)
        else:
            await super().end(child)

    async def end_later(self, child: Child) -> None:
        try:
            await anyio.sleep(1)
        finally:
            await super().end(child)


@breaks("W-13b", "Answers `shutdown` before the commands that run have ended.")
class CommandsOutliveTheShutdown(Toolbox):
    natives = (*Toolbox.natives[:-1], _Lingering)
