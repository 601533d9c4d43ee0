"""A model on one's own machine, seen from an editor: it is loaded, it may be able to do little."""

from __future__ import annotations

from eca_protocol.testing.provider import Provider, Reply
from tests.eca_server.agent.chat.editor import editor, finishes, provider_config, text
from tests.eca_server.models.ollama.scripted import reply, running, shown
from tests.eca_server.models.ollama.scripted import text as said


async def test_it_is_reported_that_a_model_is_loaded_and_what_it_cannot_do() -> None:
    others = {
        "/api/ps": Reply(body={"models": []}),
        "/api/show": Reply(body=shown("completion", context=40_960)),
    }
    async with Provider([reply(said("Hi")), reply(said("Ho"))], others=others) as provider:
        config = provider_config(provider.url)
        config["providers"]["p"] |= {"api": "ollama", "url": provider.url.removesuffix("/v1")}
        async with editor(config) as ours:
            received = await ours.turn("Hello", model="p/m")
            again = await ours.turn("And?", model="p/m")
            window = ours.connection.models.find("p/m").capabilities.context
    told = [each["text"] for each in received if each["type"] == "progress"]
    assert told.index("Loading the model") < told.index("Generating")
    assert "This model does not support tools; the chat continues without them." in text(received)
    assert text(again) == "And?Ho", "the note is shown once in a chat"
    assert finishes(received) == 1
    assert window == 40_960
    [usage] = [each for each in again if each["type"] == "usage"]
    assert usage["limit"] == {"context": 40_960, "output": 40_960}


async def test_a_model_in_memory_is_not_reported_as_loading() -> None:
    others = {
        "/api/ps": Reply(body=running("m:latest", 32_768)),
        "/api/show": Reply(body=shown("completion", "tools")),
    }
    async with Provider([reply(said("Hi"))], others=others) as provider:
        config = provider_config(provider.url)
        config["providers"]["p"] |= {"api": "ollama", "url": provider.url.removesuffix("/v1")}
        async with editor(config) as ours:
            received = await ours.turn("Hello", model="p/m")
        assert provider.requests[0].body["options"] == {"num_ctx": 32_768}
    told = [each["text"] for each in received if each["type"] == "progress"]
    assert "Loading the model" not in told
    assert text(received) == "HelloHi"
