"""Verbs of tests of a connection's features, for the in-process driver."""

from typing import Any

from tests.eca_server.agent.chat.editor import Editor


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
