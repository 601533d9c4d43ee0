"""The rules for input items, written down apart from the writer."""


def check_input(items: list[dict]) -> None:
    """What strict servers refuse.

    Every call has its output behind it, before anything else but other calls and outputs is said
    by a user; ids are unique and short; no reasoning without the item that it led to; no message
    and no text is empty; no id of an item that is not stored, but for reasoning.
    """
    assert items[0].get("role") == "user"
    assert items[-1].get("role") == "user" or items[-1]["type"] == "function_call_output"
    due: set[str] = set()
    seen: set[str] = set()
    after_reasoning = False
    for item in items:
        kind = item.get("type", "message")
        by_us = item.get("role") == "user" or kind == "function_call_output"
        assert not (after_reasoning and by_us), "reasoning that led to nothing"
        after_reasoning = kind == "reasoning"
        if kind == "message":
            assert not (by_us and due), f"calls without an output: {due}"
            check_content(item["content"], role=item["role"])
            assert "id" not in item
            assert item.keys() <= {"type", "role", "content", "phase"}
        elif kind == "function_call":
            assert item.keys() == {"type", "call_id", "name", "arguments"}
            assert 0 < len(item["call_id"]) <= 64
            assert item["call_id"] not in seen
            assert isinstance(item["arguments"], str)
            assert item["arguments"]
            seen.add(item["call_id"])
            due.add(item["call_id"])
        elif kind == "function_call_output":
            due.remove(item["call_id"])
            check_content(item["output"], role="tool")
        elif kind == "reasoning":
            assert item["id"]
            assert item["encrypted_content"] or item["content"]
    assert not due
    assert not after_reasoning


def check_content(content: str | list[dict], *, role: str) -> None:
    if isinstance(content, str):
        assert content.strip()
        return
    assert content
    assert role in ("user", "tool")
    for part in content:
        assert part["type"] in ("input_text", "input_image", "input_file")
        assert part["type"] != "input_text" or part["text"].strip()
