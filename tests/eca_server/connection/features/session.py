"""Verbs of tests of a connection's features, for the in-process driver."""

from typing import Any

from tests.eca_server.agent.chat.editor import Editor


async def status(ours: Editor, name: str, wanted: str) -> dict[str, Any]:
    """Read until the MCP server has a status, and return the announcement."""
    message = await ours.until(
        lambda each: (
            each.get("method") == "tool/serverUpdated"
            and (each["params"]["name"], each["params"]["status"]) == (name, wanted)
        )
    )
    return dict(message["params"])


async def refused(ours: Editor, method: str, params: Any) -> dict[str, Any]:
    """Send a request, and return its error."""
    asked = ours.request(method, params)
    await ours.send(asked)
    answer = await ours.until(lambda each: each.get("id") == asked["id"])
    assert type(answer["error"]["code"]) is int
    return dict(answer["error"])


async def until_shown(ours: Editor, words: str = "") -> str:
    """Read until a message with these words is shown, and return it."""
    shown = await ours.until(
        lambda each: each.get("method") == "$/showMessage" and words in each["params"]["message"]
    )
    return str(shown["params"]["message"])


async def announced(ours: Editor) -> dict[str, Any]:
    """Read until the next `config/updated`, and return its chat part."""
    update = await ours.until(lambda each: each.get("method") == "config/updated")
    return dict(update["params"]["chat"])
