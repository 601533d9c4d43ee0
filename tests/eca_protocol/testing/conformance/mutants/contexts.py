"""Mutants of queries, contexts, commands and the editor's diagnostics."""

from pathlib import Path
from typing import Any, ClassVar

import attrs

from tests.eca_protocol.testing.conformance.mutants.registry import breaks
from tests.eca_protocol.testing.conformance.reference.chat import Turn
from tests.eca_protocol.testing.conformance.reference.commands import Commands
from tests.eca_protocol.testing.conformance.reference.model import ModelFault
from tests.eca_protocol.testing.conformance.reference.params import Params
from tests.eca_protocol.testing.conformance.reference.server import Server
from tests.eca_protocol.testing.conformance.reference.workspace import Workspace

Context = dict[str, Any]


@breaks("CHAT-24", "Calls the folders in a root files.")
class FoldersAreFiles(Workspace):
    def query(self, text: str, known: list[Context], more: list[Context]) -> list[Context]:
        found = super().query(text, known, more)
        roots = [str(root) for root in self.roots]
        return [
            each if each.get("path") in roots or "path" not in each else {**each, "type": "file"}
            for each in found
        ]


@breaks("W-40b", "Looks for commands by their name only.")
class CommandsByName(Commands):
    def find(self, query: str) -> list[dict[str, Any]]:
        wanted = query.strip().lower()
        return [each for each in super().find(query) if wanted in each["name"].lower()]


class _AsksForKeys(Turn):
    asked_in: ClassVar[set[str]] = set()

    async def converse(self) -> None:
        if self.chat.id in self.asked_in:
            self.asked_in.remove(self.chat.id)
            self.send_system_text("That is no key.")
        elif self.prompt.text.startswith("/login"):
            self.asked_in.add(self.chat.id)
            self.send_system_text("Which key is it?")
        else:
            await super().converse()


@breaks("CHAT-9", "Asks for a key, and does not say so in the answer.")
class LoginsAreLikeAnyPrompt(Server):
    def __init__(self, transport: Any, config: Any, parts: Any) -> None:
        super().__init__(transport, config, attrs.evolve(parts, turn=_AsksForKeys))

    def query_commands(self, params: Params) -> Any:
        given = super().query_commands(params)
        login = {"name": "login", "description": "Log in.", "type": "native", "arguments": []}
        is_meant = params.text("query").lower() in "login log in."
        return {**given, "commands": [*given["commands"], *([login] if is_meant else [])]}


@breaks("CTX-1", "Shows the name of a file for its text.")
class FilesByName(Workspace):
    def show_file(self, path: Path, lines: dict[str, int] | None = None) -> str:
        return f"<file path={path}/>" if lines is None else super().show_file(path, lines)


@breaks("W-41d", "Counts the lines of a range from 0, and leaves its end away.")
class LinesFromZero(Workspace):
    def show_file(self, path: Path, lines: dict[str, int] | None = None) -> str:
        moved = lines and {"start": lines["start"] + 1, "end": lines["end"]}
        return super().show_file(path, moved)


@breaks("CTX-3", "Shows the name of a folder for what is in it.")
class FoldersByName(Workspace):
    def show_directory(self, path: Path) -> str:
        return f"<folder path={path}/>"


@breaks("W-41a", "Shows which files a folder has, and not their text.")
class FoldersAsTrees(Workspace):
    def show_directory(self, path: Path) -> str:
        return super().show_directory(path)[super().show_directory(path).index("<tree") :]


@breaks("CTX-6", "Shows a selection as the point where it starts.")
class CursorIsAPoint(Workspace):
    def show_cursor(self, path: str, position: dict[str, Any]) -> str:
        return super().show_cursor(path, {**position, "end": position["start"]})


@breaks("W-41c", "Adds 1 to the cursor.")
class CursorFromOne(Workspace):
    def show_cursor(self, path: str, position: dict[str, Any]) -> str:
        moved = {
            name: {key: value + 1 for key, value in place.items()}
            for name, place in position.items()
        }
        return super().show_cursor(path, moved)


@breaks("CTX-4", "Fetches a page, and shows its address for its text.")
class PagesByAddress(Server):
    async def show_context(self, context: dict[str, Any]) -> str:
        shown = await super().show_context(context)
        return f"See {context['url']}" if context["type"] == "web" else shown


@breaks("CTX-7", "Shows the URI of a resource for its text.")
class ResourcesAreNotRead(Server):
    async def show_context(self, context: dict[str, Any]) -> str:
        if context["type"] == "mcpResource":
            return f"See {context['uri']}"
        return await super().show_context(context)


@breaks("W-41e", "Skips a context of an unknown type without a word.")
class UnknownContextsAreFaults(Server):
    async def show_context(self, context: dict[str, Any]) -> str:
        shown = await super().show_context(context)
        return "" if "was skipped" in shown else shown


@breaks("W-41e")
class SkipsWhileItTalksOfMore(Turn):
    """Skips such a context without a word; its instructions speak of what contexts are."""

    def instructions(self) -> str:
        told = " The user may show you files." if self.prompt.contexts else ""
        return super().instructions() + told

    async def user_message(self, text: str) -> dict[str, Any]:
        message = await super().user_message(text)
        parts = message["content"].split("\n\n")
        shown = [part for part in parts if "was skipped" not in part]
        return {**message, "content": "\n\n".join(shown)}


@breaks("W-3f", "Skips such a context of a prompt without a word.")
class IncompleteContextsSilently(Server):
    async def show_context(self, context: dict[str, Any]) -> str:
        shown = await super().show_context(context)
        return "" if "lacks what it needs" in shown else shown


@breaks("LIFE-10", "Finds nothing in its roots.")
class RootsAreNotRead(Workspace):
    def query(self, text: str, known: list[Context], more: list[Context]) -> list[Context]:
        roots, self.roots = self.roots, []
        try:
            return super().query(text, known, more)
        finally:
            self.roots = roots


@breaks("W-42d", "Asks for diagnostics though the client cannot tell any.")
class AsksEveryEditor(Server):
    def initialize(self, params: Params) -> Any:
        result = super().initialize(params)
        self.can_diagnose = True
        self.toolbox = self.parts.toolbox(self)
        return result


@breaks("W-42c", "Shows the model positions that count from 0.")
class PositionsFromZero(Server):
    async def ask(self, method: str, params: Any, *, seconds: float) -> Any:
        answer = await super().ask(method, params, seconds=seconds)
        diagnostics = answer.get("diagnostics") if isinstance(answer, dict) else None
        if isinstance(diagnostics, list) and self.client != "vscode":
            for found in diagnostics:
                for place in found.get("range", {}).values():
                    place["line"] -= 1
        return answer


@breaks("CTX-5", "Has no map of the repository.")
class NoMap(Workspace):
    def show_map(self) -> str:
        return ""


@breaks("W-41b", "Shows the model whatever file the user mentions.")
class MentionsAreContexts(Turn):
    async def user_message(self, text: str) -> dict[str, Any]:
        mentioned = [Path(word[1:]) for word in text.split() if word.startswith("@")]
        shown = [self.server.workspace.show_file(path) for path in mentioned]
        return await super().user_message("\n".join([*shown, text]))


@breaks("EDIT-2", "Asks for the faults of the workspace's folder where those of all are wanted.")
class AlwaysOneFile(Server):
    async def ask(self, method: str, params: Any, *, seconds: float) -> Any:
        asked = params or {"uri": self.workspace.roots[0].as_uri()}
        return await super().ask(method, asked, seconds=seconds)


@breaks("W-42b", "Leaves out what has a severity that the specification does not name.")
class FourSeverities(Server):
    async def ask(self, method: str, params: Any, *, seconds: float) -> Any:
        answer = await super().ask(method, params, seconds=seconds)
        if isinstance(answer, dict) and isinstance(answer.get("diagnostics"), list):
            known = ("error", "warning", "info", "hint")
            diagnostics = [each for each in answer["diagnostics"] if each.get("severity") in known]
            return {"diagnostics": diagnostics}
        return answer


@breaks("W-42e", "Ends the turn when the editor's answer makes no sense.")
class SenselessAnswersEndTheTurn(Server):
    async def ask(self, method: str, params: Any, *, seconds: float) -> Any:
        answer = await super().ask(method, params, seconds=seconds)
        if isinstance(answer, dict) and not isinstance(answer.get("diagnostics"), list):
            raise ModelFault("The editor's answer makes no sense.")
        return answer
