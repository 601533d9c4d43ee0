"""A test server on Peer, which records the messages and sends those that a test chooses."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest
from trio.testing import MockClock

from eca_protocol import messages as m
from eca_protocol.client import Chat, Client, Turn, connect
from eca_protocol.draft import codec_for
from eca_protocol.message_transport import StreamTransport
from eca_protocol.methods import ECA
from eca_protocol.peer import Peer
from eca_protocol.revisions import Revision
from eca_protocol.streams import memory_pair

ON_A_CLOCK_OF_ITS_OWN = pytest.mark.parametrize(
    "anyio_backend", [("trio", {"clock": MockClock(autojump_threshold=0)})], ids=["trio"]
)

CURRENT = m.ConfigUpdatedParams(chat=m.ChatConfig(models=("a/b",), variants=()))
"""A configuration that only a server of the newest edition announces."""


class FakeServer:
    """A server that answers every request; `on` replaces the handler of a method."""

    def __init__(self, peer: Peer, handlers: dict[str, Callable[[Any], Any]]) -> None:
        self.peer = peer
        self.received: list[tuple[str, Any]] = []
        self._handlers = handlers
        self._arrived = anyio.Event()
        answers: dict[str, Callable[[Any], Any]] = {
            "initialize": lambda _: m.InitializeResponse(chat_welcome_message="hello"),
            "shutdown": lambda _: None,
            "chat/prompt": self.taken,
            "chat/delete": lambda _: m.ChatDeleteResponse(),
            "chat/queryContext": lambda _: m.ChatQueryContextResponse(
                contexts=(m.FileContext(path="/a"),)
            ),
            "chat/queryCommands": lambda _: m.ChatQueryCommandsResponse(
                commands=(m.ChatCommand(name="costs", description="d", type="native"),)
            ),
        }
        for method in ECA.received_by("server"):
            self.on(method, answers.get(method, lambda _: None))

    def answers(self, method: str, result: Any) -> None:
        """Answer a request with this result from now on."""
        self.on(method, lambda _: result)

    def on(self, method: str, handler: Callable[[Any], Any]) -> None:
        """Handle a method with this function from now on, after recording it."""

        def record(params: Any) -> Any:
            self.received.append((method, params))
            self._arrived.set()
            return handler(params)

        self._handlers[method] = record

    @staticmethod
    def taken(params: m.ChatPromptParams) -> m.ChatPromptResponse:
        """Return the answer to a prompt."""
        return m.ChatPromptResponse(chat_id=params.chat_id or "", model="a/b", status="prompting")

    async def until(self, method: str, count: int = 1) -> list[Any]:
        """Wait for `count` messages of a method, and return their params."""
        with anyio.fail_after(5):
            while len(self.params_of(method)) < count:
                self._arrived = anyio.Event()
                await self._arrived.wait()
        return self.params_of(method)

    def params_of(self, method: str) -> list[Any]:
        """Return the params of the received messages of a method."""
        return [params for name, params in self.received if name == method]

    def content(self, chat_id: str, content: m.ChatContent, role: m.ChatRole = "assistant") -> None:
        """Send a content of a chat."""
        self.peer.notify(
            "chat/contentReceived",
            m.ChatContentReceivedParams(chat_id=chat_id, role=role, content=content),
        )

    def text(self, chat_id: str, *texts: str) -> None:
        """Send a text of the assistant."""
        for text in texts:
            self.content(chat_id, m.ChatTextContent(text=text))

    def finish(self, chat_id: str, *texts: str) -> None:
        """Send texts of the assistant and the end of a turn."""
        self.text(chat_id, *texts)
        self.content(chat_id, m.ChatProgressContent(state="finished", text=""), "system")

    def sends(self, *contents: m.ChatContent) -> None:
        """Answer every prompt with these contents, and finish it."""

        def prompt(params: m.ChatPromptParams) -> m.ChatPromptResponse:
            for content in contents:
                self.content(params.chat_id or "", content)
            self.finish(params.chat_id or "")
            return self.taken(params)

        self.on("chat/prompt", prompt)

    def answers_with(self, *texts: str) -> None:
        """Echo every prompt and answer it with these texts."""

        def prompt(params: m.ChatPromptParams) -> m.ChatPromptResponse:
            chat_id = params.chat_id or ""
            self.content(chat_id, m.ChatProgressContent(state="running", text="w"), "system")
            self.content(chat_id, m.ChatTextContent(text=params.message), "user")
            self.finish(chat_id, *texts)
            return self.taken(params)

        self.on("chat/prompt", prompt)


@asynccontextmanager
async def connected(
    *,
    speaks: Revision = Revision.R2025_10,
    config: m.ConfigUpdatedParams | None = None,
    **options: Any,
) -> AsyncIterator[tuple[Client, FakeServer]]:
    """Connect a client with a fake server of this edition, which may announce a configuration."""
    ours, theirs = memory_pair(limit=4 * 2**20)
    handlers: dict[str, Callable[[Any], Any]] = {}
    transport, codec = StreamTransport(theirs), codec_for(speaks)
    peer = Peer(transport, side="server", table=ECA, codec=codec, handlers=handlers)
    async with peer:
        server = FakeServer(peer, handlers)
        peer.start_soon(peer.serve)
        async with connect(transport=ours, **options) as client:
            if config is not None:
                peer.notify("config/updated", config)
                await client.wait_for_config()
            yield client, server


@asynccontextmanager
async def chatting(**options: Any) -> AsyncIterator[tuple[Chat, FakeServer]]:
    """Connect a client with a fake server, and open the chat `c`."""
    async with connected(**options) as (client, server):
        yield client.chat("c"), server


async def begun(turn: Turn) -> Turn:
    """Send the prompt of a turn."""
    await turn.start()
    return turn
