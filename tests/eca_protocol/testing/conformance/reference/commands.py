"""Slash commands: two native ones, and the prompts of MCP servers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tests.eca_protocol.testing.conformance.reference.chat import Chat
    from tests.eca_protocol.testing.conformance.reference.server import Server


class Commands:
    """The slash commands of a server."""

    def __init__(self, owner: Server) -> None:
        self._owner = owner

    def find(self, query: str) -> list[dict[str, Any]]:
        """Return the commands whose name or description contains the query."""
        needle = query.strip().lower()
        listed = [
            _command("costs", "What this chat has cost.", "native"),
            _command("help", "Which commands there are.", "native", [{"name": "about"}]),
        ]
        for server, prompt in self._owner.mcp.prompts():
            listed.append(
                _command(
                    f"{server.name}:{prompt['name']}",
                    prompt.get("description") or prompt["name"],
                    "mcp-prompt",
                    prompt.get("arguments", ()),
                )
            )
        return [
            each
            for each in listed
            if needle in each["name"].lower() or needle in each["description"].lower()
        ]

    def run(self, line: str, chat: Chat) -> str:
        """Return the text of a native command."""
        if line.split(maxsplit=1)[0] == "costs":
            return f"Tokens: {chat.tokens}, costs: {chat.cost:.6f}"
        return "Commands: " + ", ".join(each["name"] for each in self.find(""))

    async def expand(self, line: str) -> str | None:
        """Return the text of an MCP server's prompt; None for any other command."""
        name, *words = line.split()
        for server, prompt in self._owner.mcp.prompts():
            if name == f"{server.name}:{prompt['name']}":
                names = [each["name"] for each in prompt.get("arguments", ())]
                arguments = dict(zip(names, words, strict=False))
                params = {"name": prompt["name"], "arguments": arguments}
                result = await server.call("prompts/get", params)
                return "\n".join(str(each["content"].get("text")) for each in result["messages"])
        return None


def _command(name: str, description: str, kind: str, arguments: Any = ()) -> dict[str, Any]:
    return {
        "name": name,
        "description": description,
        "type": kind,
        "arguments": [
            {"name": each["name"], "required": bool(each.get("required"))} for each in arguments
        ],
    }
