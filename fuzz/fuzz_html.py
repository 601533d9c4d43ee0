"""Any page becomes a text in linear time, and dropped elements are dropped to their end."""

from __future__ import annotations

from runner import instrumented, main

with instrumented():
    from eca_server.agent.context.html_text import html_to_text

URL = "https://h.example/a/b"


def check(data: bytes) -> None:
    source = data.decode("utf-8", "replace")
    steps = 0

    def checkpoint() -> None:
        nonlocal steps
        steps += 1

    page = html_to_text(source, url=URL, checkpoint=checkpoint)
    assert steps <= len(source) // 1000 + 2
    assert page.text == page.text.strip()
    assert "\n\n\n" not in page.text
    again = html_to_text(source + "<!-- x -->", url=URL, checkpoint=checkpoint)
    assert again == page or "<" in source
    lower = source.lower()
    if "</script" not in lower:
        hidden = html_to_text(f"<p>seen</p><script>{source}", url=URL, checkpoint=checkpoint)
        assert hidden.text == "seen"
    if "<" not in source and "&" not in source:
        assert page.text.split() == source.split()


if __name__ == "__main__":
    main("html", check)
