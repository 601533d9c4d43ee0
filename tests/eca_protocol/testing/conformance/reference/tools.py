"""The tools: four native ones, one that asks the editor, and what MCP servers have."""

from __future__ import annotations

import difflib
import re
from abc import abstractmethod
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs

from eca_protocol.process import Child, GracePeriods, spawn

if TYPE_CHECKING:
    from tests.eca_protocol.testing.conformance.reference.server import Server

COUNT_FROM_ZERO = ("vscode",)
POSITION = ("line", "character")


class ToolFault(Exception):
    """A failed call; the model gets the text."""


@attrs.frozen(kw_only=True)
class FileChange:
    """The planned or completed change of a file."""

    path: str
    before: str
    after: str

    def as_details(self) -> dict[str, Any]:
        lines = difflib.unified_diff(
            self.before.splitlines(), self.after.splitlines(), lineterm="", n=3
        )
        hunks = list(lines)[2:]
        return {
            "type": "fileChange",
            "path": self.path,
            "diff": "\n".join(hunks),
            "linesAdded": sum(line.startswith("+") for line in hunks),
            "linesRemoved": sum(line.startswith("-") for line in hunks),
        }


class Tool:
    """A native tool; those of MCP servers override what differs."""

    origin = "native"
    server = "eca"
    name = ""
    description = ""
    arguments: tuple[str, ...] = ()
    optional: tuple[str, ...] = ()
    changes = True  # not to be called while it is only planned

    def __init__(self, owner: Server) -> None:
        self.owner = owner

    @property
    def offered_name(self) -> str:
        return self.name

    @property
    def parameters(self) -> dict[str, Any]:
        names = (*self.arguments, *self.optional)
        properties = {name: {"type": "string"} for name in names}
        return {"type": "object", "properties": properties, "required": list(self.arguments)}

    def argument(self, arguments: dict[str, Any], name: str) -> str:
        value = arguments.get(name)
        if not isinstance(value, str):
            raise ToolFault(f"expected {name}, a text")
        return value

    def path(self, arguments: dict[str, Any]) -> Path:
        return self.owner.workspace.resolve(self.argument(arguments, "path"))

    def cut(self, text: str) -> str:
        return cut(text, self.owner.toolbox.cap)

    def preview(self, arguments: dict[str, Any]) -> FileChange | None:
        try:
            return self.change(arguments)
        except ToolFault:
            return None

    def change(self, arguments: dict[str, Any]) -> FileChange | None:
        return None

    @abstractmethod
    async def run(self, arguments: dict[str, Any]) -> str:
        """Run the call; return the text for the model."""


class ReadFile(Tool):
    name, description = "eca_read_file", "Read a file."
    arguments, optional, changes = ("path",), ("line_offset", "limit"), False

    async def run(self, arguments: dict[str, Any]) -> str:
        lines = read(self.path(arguments)).splitlines(keepends=True)
        first = int(arguments.get("line_offset") or 0)
        return self.cut("".join(lines[first : first + int(arguments.get("limit") or len(lines))]))


class DirectoryTree(Tool):
    name, description = "eca_directory_tree", "List what is below a folder."
    arguments, optional, changes = ("path",), ("max_depth",), False

    async def run(self, arguments: dict[str, Any]) -> str:
        return self.cut("\n".join(map(str, sorted(self.path(arguments).rglob("*")))))


class Grep(Tool):
    name, description = "eca_grep", "Find a text in the files below a folder."
    arguments, optional, changes = ("path", "pattern"), ("include", "max_results"), False

    async def run(self, arguments: dict[str, Any]) -> str:
        pattern = re.compile(self.argument(arguments, "pattern"))
        paths = self.path(arguments).rglob(str(arguments.get("include") or "*"))
        return self.cut(
            "\n".join(str(path) for path in paths if pattern.search(read_or_nothing(path)))
        )


class MoveFile(Tool):
    name, description = "eca_move_file", "Move a file."
    arguments = ("source", "destination")

    async def run(self, arguments: dict[str, Any]) -> str:
        source, destination = (self.argument(arguments, name) for name in self.arguments)
        self.owner.workspace.resolve(source).rename(self.owner.workspace.resolve(destination))
        return f"{source} is {destination} now."


class WriteFile(Tool):
    name, description = "eca_write_file", "Write a file."
    arguments = ("path", "content")

    def change(self, arguments: dict[str, Any]) -> FileChange:
        path = self.path(arguments)
        before = read(path) if path.exists() else ""
        return FileChange(path=str(path), before=before, after=self.argument(arguments, "content"))

    async def run(self, arguments: dict[str, Any]) -> str:
        change = self.change(arguments)
        Path(change.path).parent.mkdir(parents=True, exist_ok=True)
        Path(change.path).write_text(change.after, "utf-8")
        return f"{change.path} is written."


class EditFile(WriteFile):
    name, description = "eca_edit_file", "Replace a text that is in a file once."
    arguments = ("path", "original_content", "new_content")
    optional = ("all_occurrences",)

    def change(self, arguments: dict[str, Any]) -> FileChange:
        path = self.path(arguments)
        before, old = read(path), self.argument(arguments, "original_content")
        count = before.count(old) if old else 0
        if count != 1 and not (count and arguments.get("all_occurrences")):
            raise ToolFault(f"expected the text once in {path}, found {count} matches")
        after = before.replace(old, self.argument(arguments, "new_content"))
        return FileChange(path=str(path), before=before, after=after)


class ShellCommand(Tool):
    name, description = "eca_shell_command", "Run a command of the shell."
    arguments, optional = ("command",), ("working_directory", "timeout")

    async def run(self, arguments: dict[str, Any]) -> str:
        place = self.owner.workspace.resolve(str(arguments.get("working_directory") or "."))
        command = ["/bin/sh", "-c", f"exec 2>&1; {self.argument(arguments, 'command')}"]
        child = spawn(command, cwd=place, stdin="null")
        output = bytearray()
        try:
            while data := await child.transport.receive():
                output += data
            code = await child.wait()
        finally:
            await self.end(child)
        text = self.cut(output.decode("utf-8", "replace"))
        if code:
            raise ToolFault(f"exit code {code}\n{text}")
        return text

    async def end(self, child: Child) -> None:
        await child.end(GracePeriods(after_stdin=0, after_term=0.2, after_kill=0.2))


class EditorDiagnostics(Tool):
    name, description = "eca_editor_diagnostics", "What the editor knows to be wrong."
    optional, changes = ("path",), False

    async def run(self, arguments: dict[str, Any]) -> str:
        params = {"uri": self.path(arguments).as_uri()} if arguments.get("path") else {}
        answer = await self.owner.ask("editor/getDiagnostics", params, seconds=2)
        diagnostics = answer.get("diagnostics") if isinstance(answer, dict) else None
        if not isinstance(diagnostics, list):
            raise ToolFault("The editor gave no answer.")
        first = 0 if self.owner.client in COUNT_FROM_ZERO else 1
        lines = [diagnostic_line(each, first) for each in diagnostics]
        return "\n".join(filter(None, lines)) or "Nothing is wrong."


class Toolbox:
    """All tools, who may call them, and how they are shown."""

    cap = 30_000  # bytes of an output
    natives: tuple[type[Tool], ...] = (
        ReadFile,
        DirectoryTree,
        Grep,
        WriteFile,
        EditFile,
        MoveFile,
        ShellCommand,
    )

    def __init__(self, owner: Server) -> None:
        self._owner = owner
        self.approved: set[str] = set()  # for the session
        kinds = (*self.natives, *([EditorDiagnostics] if owner.can_diagnose else []))
        self._native = [kind(owner) for kind in kinds]

    @property
    def tools(self) -> list[Tool]:
        return [*self._native, *self._owner.mcp.tools]

    def find(self, name: str) -> Tool | None:
        called = (tool for tool in self.tools if name == tool.offered_name or names(tool, [name]))
        return next(called, None)

    def offered(self, behavior: str) -> list[dict[str, Any]]:
        """Return the tools to offer to the model."""
        functions = [
            {
                "name": tool.offered_name,
                "description": tool.description,
                "parameters": tool.parameters,
            }
            for tool in self.tools
            if not self.is_withheld(tool, behavior)
        ]
        return [{"type": "function", "function": function} for function in functions]

    def listed(self, tools: Iterable[Tool], behavior: str) -> list[dict[str, Any]]:
        """Return the tools to announce to the client."""
        return [
            {
                "name": tool.name,
                "description": tool.description,
                "parameters": tool.parameters,
                "disabled": self.is_withheld(tool, behavior),
            }
            for tool in tools
        ]

    def native(self, behavior: str) -> list[dict[str, Any]]:
        return self.listed(self._native, behavior)

    def is_withheld(self, tool: Tool, behavior: str) -> bool:
        disabled = names(tool, self._owner.config.get("disabledTools", ()))
        return disabled or (behavior == "plan" and tool.changes)

    def rules(self, verdict: str, tool: Tool, arguments: dict[str, Any]) -> bool:
        """Return whether the configuration has a rule with that verdict for a call."""
        approval = self._owner.config.get("toolCall", {}).get("approval", {})
        return any(
            names(tool, [selector]) and has_match(rule.get("argsMatchers", {}), arguments)
            for selector, rule in approval.get(verdict, {}).items()
        )

    def verdict(self, tool: Tool, behavior: str, arguments: dict[str, Any]) -> str:
        if self.is_withheld(tool, behavior) or self.rules("deny", tool, arguments):
            return "deny"
        if tool.name in self.approved:
            return "allow"
        for verdict in ("ask", "allow"):
            if self.rules(verdict, tool, arguments):
                return verdict
        default = self._owner.config.get("toolCall", {}).get("approval", {}).get("byDefault")
        return str(default or ("ask" if tool.changes else "allow"))


def names(tool: Tool, selectors: Iterable[str]) -> bool:
    """Return whether one of the names means the tool, in any spelling."""
    own = {tool.name, tool.server, f"{tool.server}__{tool.name}"}
    if tool.origin == "native":
        bare = tool.name.removeprefix("eca_")
        own |= {bare, f"eca__{bare}", f"eca_{bare}"}
    return not own.isdisjoint(selectors)


def has_match(matchers: dict[str, list[str]], arguments: dict[str, Any]) -> bool:
    """Return whether each named argument matches one of its patterns."""
    return all(
        any(re.fullmatch(pattern, str(arguments.get(name, "")), re.DOTALL) for pattern in patterns)
        for name, patterns in matchers.items()
    )


def read(path: Path) -> str:
    try:
        return path.read_text("utf-8", "replace")
    except OSError as error:
        raise ToolFault(f"{path}: {error.strerror}") from error


def read_or_nothing(path: Path) -> str:
    try:
        return read(path)
    except ToolFault:
        return ""


def cut(text: str, cap: int) -> str:
    """Cut a text at the limit, and note the number of omitted bytes."""
    data = text.encode("utf-8", "replace")
    if len(data) <= cap:
        return text
    omitted = len(data) - cap
    return data[:cap].decode("utf-8", "ignore") + f"\n... cut, {omitted} bytes left out ..."


def diagnostic_line(diagnostic: Any, first: int) -> str:
    """Return a diagnostic with its place, counted from 1; empty for anything else."""
    try:
        line, character = (diagnostic["range"]["start"][name] + 1 - first for name in POSITION)
        place = f"{diagnostic['uri']}:{line}:{character}"
        severity, code = diagnostic.get("severity"), diagnostic.get("code")
        return f"{place}: {severity}: {diagnostic['message']} ({code})"
    except (KeyError, TypeError):
        return ""
