"""The reference server as it speaks CURRENT, as far as cases judge rows that only CURRENT has."""

import contextlib
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

from eca_protocol.streams import Transport
from tests.eca_protocol.testing.conformance.reference.commands import Commands
from tests.eca_protocol.testing.conformance.reference.connection import NOTIFICATIONS, REQUESTS
from tests.eca_protocol.testing.conformance.reference.current_chat import (
    CurrentChat,
    CurrentToolbox,
    CurrentToolCall,
    CurrentTurn,
    Shown,
)
from tests.eca_protocol.testing.conformance.reference.mcp import LoginNeeded, MCPServer
from tests.eca_protocol.testing.conformance.reference.params import Params
from tests.eca_protocol.testing.conformance.reference.server import Parts, Server
from tests.eca_protocol.testing.conformance.reference.wire import BAD_PARAMS, Fault

AGENTS = ["code", "plan"]
NAMES = {"agent": "code", "build": "code"}
"""Other names of the built-in agents."""

VARIANTS = ("high", "low")

ABLE = {"reason": True, "vision": False, "tools": True, "webSearch": False}


class CurrentMCPServer(MCPServer):
    """A server with CURRENT's members, and a state for a missing login."""

    def announced(self, status: str) -> dict[str, Any]:
        announcement = super().announced(status)
        if "url" in self._settings:
            del announcement["command"], announcement["args"]
            announcement["url"] = self._settings["url"]
        is_off = bool(self._settings.get("disabled"))
        announcement |= {"disabled": is_off, "hasAuth": status == "requires-auth"}
        if status == "running":
            texts = ("uri", "name", "description", "mimeType")
            announcement["resources"] = [
                {name: each.get(name, "") for name in texts} for each in self.resources
            ]
        return announcement

    async def _converse(self) -> None:
        with contextlib.suppress(LoginNeeded):
            await super()._converse()
        self.announce("requires-auth")

    async def change(self, settings: dict[str, Any]) -> None:
        await self.stop()
        self._settings = settings
        self.start()

    async def disable(self) -> None:
        await self.stop()
        self.announce("disabled")


class CurrentCommands(Commands):
    """The same commands; the type of MCP prompts is spelled as CURRENT has it."""

    def find(self, query: str) -> list[dict[str, Any]]:
        types = {"mcp-prompt": "mcpPrompt"}
        commands = super().find(query)
        return [{**each, "type": types.get(each["type"], each["type"])} for each in commands]


class CurrentServer(Server):
    """The server of one client that speaks CURRENT."""

    requests: ClassVar[Mapping[str, str]] = {
        **REQUESTS,
        "chat/list": "list_chats",
        "chat/open": "open_chat",
        "chat/history": "read_history",
        "chat/update": "update_chat",
        "chat/addFlag": "add_flag",
        "chat/removeFlag": "remove_flag",
        "chat/fork": "fork",
        "chat/inlinePrompt": "inline_prompt",
        "chat/clear": "clear",
        "chat/queryFiles": "query_files",
        "providers/list": "list_providers",
        "mcp/addServer": "add_mcp_server",
        "mcp/updateServer": "update_mcp_server",
        "mcp/removeServer": "remove_mcp_server",
        "jobs/list": "list_jobs",
        "jobs/readOutput": "read_job",
        "jobs/kill": "kill_job",
    }
    notifications: ClassVar[Mapping[str, str]] = {
        **NOTIFICATIONS,
        "chat/selectedModelChanged": "select_model",
        "mcp/disableServer": "disable_mcp_server",
        "mcp/enableServer": "start_mcp_server",
    }

    def __init__(self, transport: Transport, config: Mapping[str, Any], parts: Parts) -> None:
        super().__init__(transport, config, parts)
        self.behavior = self.named_agent(self.behavior)

    def named_agent(self, name: str) -> str:
        return NAMES.get(name, name)

    def requested_behavior(self, params: Params) -> str:
        return self.named_agent(super().requested_behavior(params))

    def initialize(self, params: Params) -> Any:
        result = super().initialize(params)
        options = params.object("initializationOptions")
        self.behavior = self.named_agent(options.text("chatAgent") or self.behavior)
        assistant = params.object("capabilities").object("codeAssistant")
        is_newer = assistant.value("chatCapabilities") is not None
        if is_newer and options.text("protocolRevision") in ("", "current"):
            return {**result, "globalConfigPath": str(Path.home() / ".config/eca/config.json")}
        return result

    def chat_config(self) -> dict[str, Any]:
        listed = {"behaviors": AGENTS, "agents": AGENTS}
        return {**super().chat_config(), **listed, **self.variants("")}

    def variants(self, selected: str) -> dict[str, Any]:
        """Return the variants of a model, and the one in force."""
        known = selected if selected in VARIANTS else None
        return {"variants": list(VARIANTS), "selectVariant": known}

    def select_model(self, params: Params) -> None:
        chat = {"selectModel": params.text("model"), **self.variants(params.text("variant"))}
        chat_id = params.text("chatId", needed=True)
        self.notify("config/updated", {"chatId": chat_id, "chat": chat})

    def chat(self, params: Params) -> CurrentChat:
        """Return the chat that is meant.

        Raises:
            Fault: it does not exist.
        """
        chat = self.chats.get(params.text("chatId", needed=True))
        if not isinstance(chat, CurrentChat):
            raise Fault(BAD_PARAMS, "there is no such chat")
        return chat

    def new_chat(self, chat_id: str) -> CurrentChat:
        chat = self.parts.chat(chat_id, self)
        assert isinstance(chat, CurrentChat)
        self.chats[chat_id] = chat
        return chat

    def stop(self, params: Params) -> None:
        chat_id = params.text("chatId", needed=True)
        chat = self.chats.get(chat_id)
        if chat is None or chat.turn is None:
            self.notify("chat/statusChanged", {"chatId": chat_id, "status": "idle"})
        super().stop(params)

    async def delete(self, params: Params) -> dict[str, Any]:
        is_known = params.text("chatId") in self.chats
        result = await super().delete(params)
        if is_known:
            self.notify("chat/deleted", {"chatId": params.text("chatId")})
        return result

    def list_chats(self, params: Params) -> dict[str, Any]:
        chats = [chat for chat in self.chats.values() if isinstance(chat, CurrentChat)]
        return {"chats": [self.summary(chat) for chat in chats]}

    def summary(self, chat: CurrentChat) -> dict[str, Any]:
        status = "idle" if chat.turn is None else "running"
        summary = {"id": chat.id, "status": status, "messageCount": len(chat.history)}
        return {**summary, "kind": chat.kind} if chat.kind else summary

    def open_chat(self, params: Params) -> dict[str, Any]:
        chat = self.chats.get(params.text("chatId", needed=True))
        if not isinstance(chat, CurrentChat):
            return {"found": False}
        contents, meta = self.window(chat, params)
        chat.announce_open()
        chat.show(contents)
        selection = {
            "model": self.selected_model,
            "agent": self.behavior,
            "variant": None,
            "variants": list(VARIANTS),
            "trust": False,
        }
        opened = {"found": True, "chatId": chat.id, "selection": selection}
        is_part = any(params.value(name) is not None for name in ("limit", "before", "after"))
        return {**opened, "meta": meta} if is_part else opened

    def window(self, chat: CurrentChat, params: Params) -> tuple[list[Shown], dict[str, Any]]:
        """Return the contents that are asked for, and where the rest is."""
        total, limit = len(chat.shown), params.value("limit")
        first, last = int(params.text("after") or 0), int(params.text("before") or total)
        if limit is not None and params.value("after") is not None:
            last = min(last, first + limit)
        elif limit is not None:
            first = max(first, last - limit)
        meta = {
            "total": total,
            "returned": last - first,
            "beforeCursor": str(first) if first > 0 else None,
            "afterCursor": str(last) if last < total else None,
            "compactionCursor": None,
        }
        return chat.shown[first:last], meta

    def read_history(self, params: Params) -> dict[str, Any]:
        chat = self.chat(params)
        contents, meta = self.window(chat, params)
        announcement = [
            {"chatId": chat.id, "role": role, "content": each} for role, each in contents
        ]
        return {"contents": announcement, "meta": meta}

    def update_chat(self, params: Params) -> dict[str, Any]:
        chat = self.chat(params)
        chat.title = params.text("title") or chat.title
        return {}

    def add_flag(self, params: Params) -> dict[str, Any]:
        self.chat(params).add_flag(params.text("contentId", needed=True), params.text("text"))
        return {}

    def remove_flag(self, params: Params) -> dict[str, Any]:
        self.chat(params).remove_flag(params.text("contentId", needed=True))
        return {}

    def fork(self, params: Params) -> dict[str, Any]:
        source, copy = self.chat(params), self.new_chat(str(uuid.uuid4()))
        source.copy_up_to(params.text("contentId", needed=True), copy)
        copy.announce_open()
        copy.show(copy.shown)
        return {"chatId": copy.id}

    def inline_prompt(self, params: Params) -> Any:
        chat_id = params.text("chatId", needed=True)
        if chat_id not in self.chats:
            source, chat = self.chats.get(params.text("sourceChatId")), self.new_chat(chat_id)
            chat.kind = "inline"
            if isinstance(source, CurrentChat):
                chat.history = list(source.history)
        return self.prompt(params)

    def clear(self, params: Params) -> dict[str, Any]:
        chat = self.chat(params)
        chat.history, chat.shown = [], []
        chat.announce_cleared()
        return {}

    def query_files(self, params: Params) -> dict[str, Any]:
        commands = self.workspace.query(params.text("query"), [], [])
        return {
            **self.named(params),
            "files": [each for each in commands if each["type"] == "file"],
        }

    def list_providers(self, params: Params) -> dict[str, Any]:
        return {
            "providers": [
                {
                    "id": name,
                    "configured": True,
                    "auth": {"status": "authenticated"},
                    "models": [{"id": model, "capabilities": ABLE} for model in each["models"]],
                }
                for name, each in self.config.get("providers", {}).items()
            ]
        }

    def mcp_settings(self, params: Params) -> dict[str, Any]:
        names = ("command", "args", "env", "url", "disabled")
        return {name: params.value(name) for name in names if params.value(name) is not None}

    def add_mcp_server(self, params: Params) -> dict[str, Any]:
        name = params.text("name", needed=True)
        server = self.parts.mcp_server(self, name, self.mcp_settings(params))
        self.mcp.add(server)
        server.start()
        return {"server": server.announced(server.status)}

    def mcp_server(self, params: Params) -> CurrentMCPServer:
        """Return the MCP server that is meant.

        Raises:
            Fault: it does not exist.
        """
        server = self.mcp.get(params.text("name", needed=True))
        if not isinstance(server, CurrentMCPServer):
            raise Fault(BAD_PARAMS, "there is no such MCP server")
        return server

    async def update_mcp_server(self, params: Params) -> dict[str, Any]:
        await self.mcp_server(params).change(self.mcp_settings(params))
        return {}

    async def remove_mcp_server(self, params: Params) -> dict[str, Any]:
        server = self.mcp_server(params)
        await server.stop()
        self.mcp.remove(server)
        self.notify("tool/serverRemoved", {"name": server.name})
        return {"name": server.name, "removed": True}

    async def disable_mcp_server(self, params: Params) -> None:
        await self.mcp_server(params).disable()

    def list_jobs(self, params: Params) -> dict[str, Any]:
        return {"jobs": []}

    def read_job(self, params: Params) -> dict[str, Any]:
        self.job_id(params)
        return {"lines": [], "status": None, "exitCode": None}

    def kill_job(self, params: Params) -> dict[str, Any]:
        self.job_id(params)
        return {"killed": False}

    def job_id(self, params: Params) -> str:
        return params.text("job-id") or params.text("jobId", needed=True)


PARTS = Parts(
    server=CurrentServer,
    chat=CurrentChat,
    turn=CurrentTurn,
    tool_call=CurrentToolCall,
    toolbox=CurrentToolbox,
    mcp_server=CurrentMCPServer,
    commands=CurrentCommands,
)


async def serve(transport: Transport, config: Mapping[str, Any]) -> int:
    """Serve one client; return the exit code of a process."""
    return await CurrentServer(transport, config, PARTS).run()
