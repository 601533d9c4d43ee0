"""The server: what each method of the protocol does."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping
from typing import Any

import anyio
import attrs

from eca_protocol import platforms
from eca_protocol.http import HTTPClient
from eca_protocol.streams import Transport
from tests.eca_protocol.testing.conformance.reference.chat import Chat, Prompt, Turn
from tests.eca_protocol.testing.conformance.reference.commands import Commands
from tests.eca_protocol.testing.conformance.reference.connection import Connection
from tests.eca_protocol.testing.conformance.reference.mcp import MCPServer, MCPServers, MCPTool
from tests.eca_protocol.testing.conformance.reference.model import Model, configured_models
from tests.eca_protocol.testing.conformance.reference.params import Params
from tests.eca_protocol.testing.conformance.reference.store import Store
from tests.eca_protocol.testing.conformance.reference.tool_call import ToolCall
from tests.eca_protocol.testing.conformance.reference.tools import Toolbox
from tests.eca_protocol.testing.conformance.reference.wire import Wire
from tests.eca_protocol.testing.conformance.reference.workspace import Workspace

WELCOME = "Welcome to the reference server."
BEHAVIORS = ["agent", "plan"]


class Server(Connection):
    """The server of one client.

    Attributes:
        config: what `ECA_CONFIG` holds.
        parts: the classes that it is made of.
        behavior: the one that is selected.
        can_diagnose: the client's editor may be asked for diagnostics.
    """

    def __init__(self, transport: Transport, config: Mapping[str, Any], parts: Parts) -> None:
        super().__init__(transport, parts.wire())
        self.config = self._given_config = config
        self.parts = parts
        self.chats: dict[str, Chat] = {}
        self.behavior = str(config.get("defaultBehavior", "agent"))
        self.can_diagnose = False
        self.commands = parts.commands(self)

    async def run(self) -> int:
        async with HTTPClient() as self.http:
            self.models = configured_models(self.config, self.http, self.parts.model)
            return await super().run()

    async def close(self) -> None:
        for chat in self.chats.values():
            chat.stop()
        for chat in self.chats.values():
            if chat.turn is not None:
                await chat.turn.ended.wait()
        if self.state != "new":
            await self.mcp.close()

    def initialize(self, params: Params) -> Any:
        options = params.object("initializationOptions")
        self.behavior = options.text("chatBehavior") or self.behavior
        self.client = params.object("clientInfo").text("name").lower()
        editor = params.object("capabilities").object("codeAssistant").object("editor")
        self.can_diagnose = editor.value("diagnostics") is True
        self.workspace = self.parts.workspace(params.list("workspaceFolders"))
        self.store = self.parts.store(self.workspace.roots)
        self.mcp = MCPServers(self)
        self.toolbox = self.parts.toolbox(self)
        pid = params.value("processId")
        if isinstance(pid, int) and pid > 0 and platforms.is_alive(pid):
            self.tasks.start_soon(self._watch, pid)
        self.state = "ready"
        return {"chatWelcomeMessage": self.welcome}

    async def _watch(self, pid: int) -> None:
        while platforms.is_alive(pid):
            await anyio.sleep(0.5)
        self.end(0)

    def initialized(self, params: Params) -> None:
        if not self.is_introduced:
            self.is_introduced = True
            self.introduce()
            for method, held_params in self._held:
                self.notify(method, held_params)
            for uri in self.workspace.unusable:
                self.show("warning", f"The folder {uri} cannot be used.")

    def introduce(self) -> None:
        task = {"taskId": "start", "title": "Starting"}
        self.notify("$/progress", {"type": "start", **task})
        self.notify("config/updated", {"chat": self.chat_config()})
        self.announce_native_tools()
        self.notify("$/progress", {"type": "finish", **task})
        self.mcp.start_all()
        self.tasks.start_soon(self._watch_configuration)

    async def _watch_configuration(self) -> None:
        """Announce the settings that a file in the workspace changes."""
        announced = self.chat_config()
        while True:
            await anyio.sleep(0.2)
            self.config = {**self._given_config, **self.workspace.configuration()}
            now = self.chat_config()
            changed = {name: value for name, value in now.items() if announced[name] != value}
            for name in ("selectBehavior", "selectAgent"):
                changed.pop(name, None)
            if changed:
                self.notify("config/updated", {"chat": changed})
                announced = now

    def chat_config(self) -> dict[str, Any]:
        return {
            "models": list(self.models),
            "selectModel": self.selected_model,
            "behaviors": BEHAVIORS,
            "selectBehavior": self.behavior,
            "agents": BEHAVIORS,
            "selectAgent": self.behavior,
            "welcomeMessage": self.welcome,
        }

    def announce_native_tools(self) -> None:
        tools = self.toolbox.native(self.behavior)
        params = {"type": "native", "name": "ECA", "status": "running", "tools": tools}
        self.notify("tool/serverUpdated", params, unasked=True)

    @property
    def welcome(self) -> str:
        return str(self.config.get("welcomeMessage", WELCOME))

    @property
    def selected_model(self) -> str:
        default = self.config.get("defaultModel")
        return default if default in self.models else next(iter(self.models))

    async def shutdown(self, params: Params) -> None:
        self.state = "shutdown"
        await self.close()
        self.store.close()

    def exit(self, params: Params) -> None:
        self.end(0 if self.state == "shutdown" else 1)

    def cancel_request(self, params: Params) -> None:
        id_ = params.value("id")
        if isinstance(id_, int | str) and (scope := self._pending.get((type(id_), id_))):
            scope.cancel()

    def prompt(self, params: Params) -> Any:
        prompt = Prompt(
            text=params.text("message", needed=True),
            model=params.text("model") or self.selected_model,
            behavior=self.requested_behavior(params),
            contexts=params.contexts(),
        )
        id_ = params.text("chatId") or self.new_chat_id()
        if id_ not in self.chats:
            self.chats[id_] = self.parts.chat(id_, self)
        return self.chats[id_].prompt(prompt)

    def requested_behavior(self, params: Params) -> str:
        """Return the behaviour that a prompt or a selection names, else the selected one."""
        return params.text("agent") or params.text("behavior") or self.behavior

    def new_chat_id(self) -> str:
        return str(uuid.uuid4())

    def stop(self, params: Params) -> None:
        if chat := self.chats.get(params.text("chatId", needed=True)):
            chat.stop()

    async def delete(self, params: Params) -> dict[str, Any]:
        if chat := self.chats.pop(params.text("chatId"), None):
            await chat.delete(tells_the_end=self.client == "emacs")
        self.store.forget(params.text("chatId"))
        return {}

    def approve(self, params: Params) -> None:
        self.decide(params, True, params.text("save") == "session")

    def reject(self, params: Params) -> None:
        self.decide(params, False, False)

    def decide(self, params: Params, approves: bool, for_session: bool) -> None:
        chat_id = params.text("chatId", needed=True)
        call_id = params.text("toolCallId", needed=True)
        chat = self.chats.get(chat_id)
        for call in chat.turn.calls if chat and chat.turn else ():
            if call.id == call_id:
                call.decide(approves, for_session=for_session)

    def select_behavior(self, params: Params) -> None:
        self.behavior = self.requested_behavior(params)
        self.announce_native_tools()

    def query_context(self, params: Params) -> Any:
        known, resources = params.contexts(), self.mcp.resources()
        contexts = self.workspace.query(params.text("query"), known, resources)
        return {**self.named(params), "contexts": contexts}

    def query_commands(self, params: Params) -> Any:
        return {**self.named(params), "commands": self.commands.find(params.text("query"))}

    def named(self, params: Params) -> dict[str, str]:
        """Return the chat's id, if there is one."""
        chat_id = params.text("chatId")
        return {"chatId": chat_id} if chat_id else {}

    async def ask_model(
        self, model: Model, request: dict[str, Any], take: Callable[[Any], None]
    ) -> None:
        """Ask a model for a turn, or for a title; give each event of the answer to `take`."""
        await model.ask(request["messages"], request["tools"], take)

    async def show_context(self, context: dict[str, Any]) -> str:
        """Return the text of a context for the model."""
        match context:
            case {"type": "file", "path": path}:
                return self.workspace.show_file(
                    self.workspace.resolve(path), context.get("linesRange")
                )
            case {"type": "directory", "path": path}:
                return self.workspace.show_directory(self.workspace.resolve(path))
            case {"type": "cursor", "path": path, "position": position}:
                return self.workspace.show_cursor(path, position)
            case {"type": "repoMap"}:
                return self.workspace.show_map()
            case {"type": "web", "url": url}:
                async with self.http.stream("GET", url) as response:
                    return (await response.read()).decode("utf-8", "replace")
            case {"type": "mcpResource", "server": server, "uri": uri}:
                return await self.mcp.read_resource(server, uri)
            case {"type": "file" | "directory" | "cursor" | "web" | "mcpResource" as kind}:
                return f"(a context of the type {kind!r} lacks what it needs)"
        return f"(a context of the type {context.get('type')!r} was skipped)"

    def start_mcp_server(self, params: Params) -> None:
        if server := self.mcp.get(params.text("name", needed=True)):
            server.start()

    async def stop_mcp_server(self, params: Params) -> None:
        if server := self.mcp.get(params.text("name", needed=True)):
            await server.stop()


@attrs.frozen(kw_only=True)
class Parts:
    """The classes of a server; a mutant replaces one of them."""

    wire: type[Wire] = Wire
    server: type[Server] = Server
    chat: type[Chat] = Chat
    turn: type[Turn] = Turn
    tool_call: type[ToolCall] = ToolCall
    toolbox: type[Toolbox] = Toolbox
    mcp_server: type[MCPServer] = MCPServer
    mcp_tool: type[MCPTool] = MCPTool
    workspace: type[Workspace] = Workspace
    commands: type[Commands] = Commands
    model: type[Model] = Model
    store: type[Store] = Store


async def serve(transport: Transport, config: Mapping[str, Any]) -> int:
    """Serve one client; return the exit code of a process."""
    return await Server(transport, config, Parts()).run()
