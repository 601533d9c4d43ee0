"""Settings of a folder that wait for the user's trust, and the questions about them."""

from collections.abc import Mapping
from typing import Any

from tests.eca_server.agent.chat import mcp_session
from tests.eca_server.agent.chat.editor import SCRIPT, Editor
from tests.eca_server.connection.features.session import until_shown

ACCEPT = "/trust yes"
OLDER: dict[str, Any] = {"codeAssistant": {"chat": True}}


def server(command: str = "planted-server", **more: Any) -> dict[str, Any]:
    return {"mcpServers": {"planted": {"command": command, "args": ["--all"], **more}}}


def guard(**more: Any) -> dict[str, Any]:
    shell = {"type": "shell", "shell": "exit 2"}
    return {"hooks": {"guard": {"type": "preToolCall", "actions": [shell], **more}}}


async def next_question(ours: Editor, prompt: str | None = None) -> dict[str, Any]:
    """Send a prompt, if there is one, and return the question that comes."""
    if prompt is not None:
        await ours.prompt(prompt, model=SCRIPT)
    return await ours.question()


async def answer_and_finish(ours: Editor, question: Mapping[str, Any], words: str | None) -> None:
    await ours.answer_question(question, words)
    await ours.expect_finished()


def questions(ours: Editor) -> list[dict[str, Any]]:
    return ours.notified("chat/askQuestion")


def messages(ours: Editor) -> list[str]:
    return [text for _, text in mcp_session.shown(ours)]


def statuses(ours: Editor, name: str = "planted") -> list[str]:
    return mcp_session.statuses(ours, name)


async def refused_start(ours: Editor) -> str:
    """Start the server, and return the message that comes instead."""
    await ours.tell("mcp/startServer", {"name": "planted"})
    return await until_shown(ours)
