"""The real process learns which models there are, and knows them at its next start."""

from __future__ import annotations

import hashlib
import json
import time
from typing import Any

from eca_protocol.testing.provider import provider_in_thread, reply
from tests.eca_server.stranger import Stranger, text_of

OURS = ["simulator/echo", "simulator/script"]


def config(url: str, **more: Any) -> dict[str, str]:
    provider = {"url": url, "key": "sk-not-a-real-key-0123456789", "models": {"m": {}}}
    configured = {
        "providers": {"p": provider, "ollama": {"fetchModels": False}},
        "chat": {"title": False},
    }
    return {"ECA_CONFIG": json.dumps({**configured, **more})}


def told(server: Stranger) -> dict[str, Any]:
    """Return the chat part of the next `config/updated`."""
    update = server.until(lambda each: each.get("method") == "config/updated")[-1]
    found: dict[str, Any] = update["params"]["chat"]
    return found


def test_the_models_of_an_endpoint_appear_and_answer(start_server):
    with provider_in_thread(models=["m", "n"], otherwise=reply("Hello")) as provider:
        server = start_server(env=config(provider.url))
        server.initialize()
        assert told(server)["models"] == ["p/m", *OURS]
        assert told(server) == {"models": ["p/m", "p/n", *OURS]}
        server.prompt("hi", model="p/n")
        contents = server.until(lambda each: "finished" in json.dumps(each))
        assert text_of(contents) == "Hello"
        assert provider.requests[0].body["model"] == "n"
        assert server.result("shutdown") is None


def test_what_was_stored_is_offered_from_the_start_even_if_it_is_broken_elsewhere(
    start_server, tmp_path
):
    """A far endpoint that cannot be reached: its list is that of another day."""
    url = "https://models.invalid/v1"
    name = hashlib.sha256(f"p\n{url}".encode()).hexdigest()[:32]
    folder = tmp_path / ".cache" / "eca-python"
    (folder / "models").mkdir(parents=True)
    kept = {"version": 1, "at": time.time() - 1e7, "models": [{"name": "old"}]}
    (folder / "models" / f"{name}.json").write_text(json.dumps(kept))
    (folder / "catalog.json").write_text('{"version": 1, "providers": {"openai":')
    server = start_server(env=config(url, catalog={"url": "http://127.0.0.1:9/api.json"}))
    server.initialize()
    assert told(server)["models"] == ["p/m", "p/old", *OURS]
    server.prompt("say fine", model="simulator/script")
    server.until(lambda each: "finished" in json.dumps(each))
    assert server.result("shutdown") is None
