"""The rules for input items, independent of the writer."""


def check_input(items: list[dict]) -> None:
    """Check input items by the rules of strict servers.

    Every call has its output after it, before the next message of a user; ids are unique and
    short; reasoning is followed by the item that it led to; no message and no text is empty; only
    reasoning items have ids, since nothing is stored.
    """
    assert items[0].get("role") == "user"
    assert items[-1].get("role") == "user" or items[-1]["type"] == "function_call_output"
    due: set[str] = set()
    ids: set[str] = set()
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
            assert item["call_id"] not in ids
            assert isinstance(item["arguments"], str)
            assert item["arguments"]
            ids.add(item["call_id"])
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
