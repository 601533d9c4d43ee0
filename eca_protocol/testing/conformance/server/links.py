"""Cases of links: what a model cites is a content of its own and a link in the text."""

from __future__ import annotations

from eca_protocol.testing.conformance.bench import Bench
from eca_protocol.testing.conformance.cases import Stuck, case
from eca_protocol.testing.script import chunk, reply, text

PAGE = "https://example.invalid/page"


@case("CHAT-17", "W-26c")
async def a_citation_is_a_link(bench: Bench) -> None:
    """The model says where its words are from, as the Chat Completions API tells that."""
    if bench.target.api != "openai-chat":
        raise Stuck("a model over Chat Completions", bench.target.api)
    cited = {
        "type": "url_citation",
        "url_citation": {"url": PAGE, "title": "A page", "start_index": 0, "end_index": 4},
    }
    event = {"choices": [{"index": 0, "delta": {"annotations": [cited]}}]}
    async with bench.seat() as seat:
        chat = seat.chat(reply(text("Rain."), chunk(event)))
        await chat.prompt("Will it rain?")
        await chat.finished()
        if not chat.of("url") and PAGE not in chat.said:
            raise Stuck("a link", "none: perhaps the server reads no citations of such a model")
        links = [(each.get("title"), each.get("url")) for each in chat.of("url")]
        bench.check(
            "CHAT-17",
            all(title and url for title, url in links),
            expected="a url content with its title",
            got=links,
        )
        bench.check(
            "W-26c",
            [url for _, url in links] == [PAGE] and f"({PAGE})" in chat.said,
            expected=f"a url content and a link to {PAGE} in the text",
            got=f"{links}, {chat.said!r}",
        )
