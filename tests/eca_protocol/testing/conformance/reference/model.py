"""A model behind the OpenAI chat API, asked over HTTP and read as it streams."""

from collections.abc import Callable, Mapping
from typing import Any

import anyio

from eca_protocol import json
from eca_protocol.errors import HTTPError, InvalidJSON
from eca_protocol.http import HTTPClient
from eca_protocol.sse import SSEDecoder

Settings = dict[str, Any]


class ModelFault(Exception):
    """The model could not be asked, or broke off; the text is for the user."""


class Model:
    """One model of one provider of the configuration.

    Attributes:
        name: `provider/model`.
        cost: dollars for a million tokens, `input` and `output`; empty if unknown.
        limit: tokens, `context` and `output`; empty if unknown.
    """

    tries = 3

    def __init__(self, name: str, provider: Settings, client: HTTPClient) -> None:
        self.name = name
        self._provider = provider
        self._client = client
        settings = provider.get("models", {}).get(self._own_name) or {}
        self.cost: dict[str, float] = settings.get("cost", {})
        self.limit: dict[str, int] = settings.get("limit", {})

    @property
    def _own_name(self) -> str:
        return self.name.partition("/")[2]

    async def ask(
        self,
        messages: list[dict[str, Any]],
        tools: list[dict[str, Any]],
        take: Callable[[dict[str, Any]], None],
    ) -> None:
        """Ask, and give each event to `take`.

        Raises:
            ModelFault: there is no answer, or no end of it.
        """
        request = {"model": self._own_name, "messages": messages, "stream": True}
        request["stream_options"] = {"include_usage": True}
        if tools:
            request["tools"] = tools
        try:
            for remaining in reversed(range(self.tries)):
                pause = await self._try(json.dumps(request), take, may_wait=remaining > 0)
                if pause is None:
                    return
                await anyio.sleep(pause)
        except (HTTPError, InvalidJSON, ValueError) as error:
            raise ModelFault(f"{self.name}: {error}") from error

    async def _try(
        self, content: bytes, take: Callable[[dict[str, Any]], None], *, may_wait: bool
    ) -> float | None:
        """Return None after an answer, else the seconds to wait before another try."""
        url = self._provider["url"].rstrip("/") + "/chat/completions"
        headers = {"content-type": "application/json"}
        headers["authorization"] = f"Bearer {self._provider.get('key', '')}"
        async with self._client.stream("POST", url, headers=headers, content=content) as response:
            if response.status in (429, 503) and may_wait:
                return float(response.headers.get("retry-after", "0.05"))
            if response.status != 200:
                text = (await response.read()).decode("utf-8", "replace")
                raise ModelFault(f"{self.name} answered {response.status}: {text}")
            decoder = SSEDecoder()
            async for chunk in response.chunks():
                for event in decoder.feed(chunk):
                    if event.data == "[DONE]":
                        return None
                    take(json.loads(event.data))
        raise ModelFault(f"{self.name} broke off its answer")


def configured_models(
    config: Mapping[str, Any], client: HTTPClient, kind: type[Model]
) -> dict[str, Model]:
    """All models by name."""
    return {
        f"{provider}/{model}": kind(f"{provider}/{model}", settings, client)
        for provider, settings in config.get("providers", {}).items()
        for model in settings.get("models", {})
    }
