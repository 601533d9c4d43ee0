"""Cases of links: a citation of the model is a content and a link in the text."""

from __future__ import annotations

from eca_protocol.testing.conformance.cases import case
from eca_protocol.testing.conformance.harness import ClientSession
from eca_protocol.testing.conformance.verdicts import Unmet
from eca_protocol.testing.script import chunk, reply, text

PAGE = "https://example.invalid/page"


@case("CHAT-17", "W-26c", needs="model")
async def a_citation_is_a_link(session: ClientSession) -> None:
    """Cite a page as a Chat Completions model does."""
    if session.target.api != "openai-chat":
        raise Unmet("a model over Chat Completions", session.target.api)
    cited = {
        "type": "url_citation",
        "url_citation": {"url": PAGE, "title": "A page", "start_index": 0, "end_index": 4},
    }
    event = {"choices": [{"index": 0, "delta": {"annotations": [cited]}}]}
    chat = await session.take_turn("Will it rain?", reply(text("Rain."), chunk(event)))
    if not chat.of("url") and PAGE not in chat.assistant_text:
        raise Unmet("a link in the text", "none: the server may not read citations of this model")
    links = [(each.get("title"), each.get("url")) for each in chat.of("url")]
    expected = "a url content with a title and a URL"
    session.check("CHAT-17", all(title and url for title, url in links), expected, links)
    is_right = [url for _, url in links] == [PAGE] and f"({PAGE})" in chat.assistant_text
    got = f"url contents {links}, the text {chat.assistant_text!r}"
    session.check("W-26c", is_right, f"one url content, and a link to {PAGE} in the text", got)
