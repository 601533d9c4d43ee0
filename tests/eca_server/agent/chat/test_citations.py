"""Sources that a model cites: a `url` content each and a link in the text, once (W-26)."""

from __future__ import annotations

import pytest

from eca_protocol.testing.provider import Provider, hang, wait
from tests.eca_server.agent.chat.editor import SCRIPT, editor, finishes, provider_config, text
from tests.eca_server.models.openai_responses.scripted import (
    answer,
    call,
    citation,
    message,
    reply,
    search,
    steps,
)

pytestmark = pytest.mark.requirement("W-26c")

PAGE = "https://e.test/a"


def urls(received: list) -> list[str]:
    return [each["url"] for each in received if each["type"] == "url"]


async def test_a_source_is_shown_and_linked_once_in_a_turn() -> None:
    script = f"say a\ncite {PAGE} A\nsay b\ncite {PAGE} A"
    async with editor() as ours:
        for _ in range(2):
            received = await ours.turn(script, model=SCRIPT)
            assert urls(received) == [PAGE]
            assert text(received[2:]) == f"a [A]({PAGE})b"


@pytest.mark.parametrize(
    ("script", "found", "shown"),
    [
        (f"say see [A]({PAGE}) there\ncite {PAGE} A", [PAGE], f"see [A]({PAGE}) there"),
        ("say a\ncite javascript:alert(1) A", [], "a"),
        ("cite https://e.test/a_(b) [1] x\\nb", ["https://e.test/a_(b)"],
            r"[\[1\] x\\nb](https://e.test/a_%28b%29)"),
    ],
    ids=["a text that has the link", "what is no page", "odd characters"],
)  # fmt: skip
async def test_a_link_is_one_and_only_for_a_page_on_the_web(script, found, shown) -> None:
    async with editor() as ours:
        received = await ours.turn(script, model=SCRIPT)
    assert urls(received) == found
    assert text(received[2:]).strip() == shown


async def test_sources_of_a_search_are_shown_as_they_come_and_stored_by_a_stop() -> None:
    cites = [citation(PAGE, "A", 0, 4), citation(PAGE, "A", 5, 9)]
    begun = answer(search("rain", PAGE), message("Rain", cites=cites))[:-5]
    script = [
        reply(search("rain", PAGE), message("Rain", cites=cites), call("eca_directory_tree", "{}")),
        reply(message("Again", cites=cites)),
        steps(begun, wait("here"), hang()),
    ]
    async with Provider(script, title=reply(message("A title"))) as provider:
        config = provider_config(provider.url, provider={"api": "openai-responses"})
        async with editor(config) as ours:
            received = await ours.turn("Will it rain?", model="p/m")
            assert urls(received) == [PAGE]
            assert text(received[2:]) == f"Rain [A]({PAGE})Again"
            told = [each["text"] for each in received if each["type"] == "progress"]
            assert "Using the provider's web search" in told
            await ours.prompt("And now?", model="p/m")
            await provider.until(lambda: "here" in provider.reached)
            await ours.content("url")
            await ours.expect_stopped()
            assert urls(ours.contents()) == [PAGE, PAGE]
            assert finishes(ours.contents()) == 2
            await provider.until(lambda: provider.requests[-1].closed_by_client)
