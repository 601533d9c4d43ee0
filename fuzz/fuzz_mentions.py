"""Each mention is in the message and none in a fence; a limited result is a prefix."""

from __future__ import annotations

from runner import instrumented, main

with instrumented():
    from eca_server.agent.context.mentions import _MOST_ENDS, find_mentions


def check(data: bytes) -> None:
    message = data.decode("utf-8", "replace")
    mentions = find_mentions(message, most=1000)
    assert len({mention.text for mention in mentions}) == len(mentions) <= message.count("@")
    at = 0
    for mention in mentions:
        assert mention.text.startswith("@")
        at = message.index(mention.text, at)
        assert 1 <= len(mention.targets) <= 2 * (1 + _MOST_ENDS)
        for target in mention.targets:
            assert target.path
            assert target.path in message[at:].replace('"', "")
            assert "\n" not in target.path
    assert find_mentions(message, most=2) == mentions[:2]
    assert find_mentions(f"```\n{message}", most=9) == () or "```" in message
    if "```" not in message and "~~~" not in message:
        named = find_mentions(f"{message}\n@./last.py:L3-L9", most=1000)
        assert named[: len(mentions)] == mentions or "@./last.py" in message
        assert any(target.path == "./last.py" for each in named for target in each.targets)


if __name__ == "__main__":
    main("mentions", check)
