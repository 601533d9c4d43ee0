"""A small MCP server on standard input and output, which servers under test start for their cases.

It is run by path and imports nothing of this package: `python mcp_server.py [FILE]`; into FILE it
writes its process id, a line for each start. Its tools are `echo`, which returns its `text`,
`sleep`, which takes half a minute, and two whose names differ only in characters that no model's
API allows. Its prompt `greet` takes `who`; its resource is `memo://today`.
"""

from __future__ import annotations

import json
import os
import sys
import threading
from pathlib import Path
from typing import Any

TEXT: dict[str, object] = {
    "type": "object",
    "properties": {"text": {"type": "string"}},
    "required": ["text"],
}
TOOLS: list[dict[str, object]] = [
    {"name": "echo", "description": "Return a text.", "inputSchema": TEXT},
    {"name": "sleep", "description": "Wait for half a minute.", "inputSchema": {"type": "object"}},
    {"name": "odd name!", "description": "One.", "inputSchema": {"type": "object"}},
    {"name": "odd name?", "description": "Two.", "inputSchema": {"type": "object"}},
]
WHO: dict[str, object] = {"name": "who", "description": "The person to greet.", "required": True}
PROMPTS: list[dict[str, object]] = [
    {"name": "greet", "description": "Greet a person.", "arguments": [WHO]}
]
RESOURCES = [
    {
        "uri": "memo://today",
        "name": "today",
        "description": "What is on today.",
        "mimeType": "text/plain",
    }
]
SECONDS = 30.0


def text(words: str) -> dict[str, Any]:
    """Return a text content of MCP."""
    return {"type": "text", "text": words}


def result_of(method: str, params: dict[str, Any]) -> dict[str, Any] | None:
    """Return the result of a request, or None for an unknown method."""
    arguments = params.get("arguments") or {}
    greeting = text(f"Say hello to {arguments.get('who', 'nobody')}.")
    results: dict[str, dict[str, Any]] = {
        "initialize": {
            "protocolVersion": params.get("protocolVersion", "2025-06-18"),
            "capabilities": {"tools": {}, "prompts": {}, "resources": {}},
            "serverInfo": {"name": "conformance", "version": "1"},
        },
        "ping": {},
        "tools/list": {"tools": TOOLS},
        "tools/call": {"content": [text(f"echo: {arguments.get('text', '')}")]},
        "prompts/list": {"prompts": PROMPTS},
        "prompts/get": {"messages": [{"role": "user", "content": greeting}]},
        "resources/list": {"resources": RESOURCES},
        "resources/templates/list": {"resourceTemplates": []},
        "resources/read": {"contents": [{"uri": params.get("uri"), "text": "Today we test."}]},
    }
    return results.get(method)


def write(message: dict[str, Any]) -> None:
    """Write one message as one line."""
    sys.stdout.buffer.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
    sys.stdout.buffer.flush()


def answer(message: dict[str, Any]) -> None:
    """Answer a request; ignore notifications."""
    if "id" not in message or "method" not in message:
        return
    result = result_of(message["method"], message.get("params") or {})
    error = {"code": -32601, "message": f"no method {message['method']}"}
    write({"id": message["id"], **({"error": error} if result is None else {"result": result})})


def main() -> None:
    """Serve until the input ends."""
    if len(sys.argv) > 1:
        with Path(sys.argv[1]).open("a") as file:
            file.write(f"{os.getpid()}\n")
    for line in sys.stdin.buffer:
        message = json.loads(line)
        if message.get("params", {}).get("name") == "sleep":
            threading.Timer(SECONDS, answer, [message]).start()
        else:
            answer(message)
    os._exit(0)


if __name__ == "__main__":
    main()
