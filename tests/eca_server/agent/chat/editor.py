"""The driver in process: an editor that speaks raw JSON with a server of this process."""

import contextlib
import itertools
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import trio
import trio.testing

from eca_protocol import json
from eca_protocol.fold import Conversation
from eca_protocol.server.roots import uri_of
from eca_protocol.streams import Transport, memory_pair
from eca_server.connection.features.host import Options
from eca_server.connection.features.lifecycle import Connection
from eca_server.connection.server import serve
from tests.eca_protocol.wire import Wire, notification, request
from tests.eca_server.server_side import ServerSide
from tests.promises import SHORTEST_LIMIT, TooSlow

ECHO, SCRIPT = "simulator/echo", "simulator/script"

Content = Mapping[str, Any]


class Contents(list[Content]):
    """Contents of a chat, as they came."""

    def __getitem__(self, place: Any) -> Any:
        item = super().__getitem__(place)
        return Contents(item) if isinstance(place, slice) else item

    @property
    def text(self) -> str:
        return text(self)

    @property
    def answer(self) -> str:
        """The texts behind the first progress and the echo of the prompt."""
        return text(self[2:])

    @property
    def prompt_ids(self) -> list[str]:
        return [
            each["contentId"] for each in self if each["type"] == "text" and "contentId" in each
        ]

    @property
    def types(self) -> list[str]:
        return types(self)

    @property
    def finishes(self) -> int:
        return finishes(self)


class Editor(Wire):
    """A client that writes raw messages, keeps all that comes, and shows it, strictly.

    Attributes:
        shown: what a user interface makes of it; the rules it breaks fail the test.
        connection: the server's side, for what the wire does not tell.
    """

    connection: ServerSide

    def __init__(self, transport: Transport) -> None:
        super().__init__(transport)
        self._ids = itertools.count(1)
        self._requested_at = 0.0
        self._conversation = Conversation()
        self.shown = self._conversation.fold

    async def start(self, **params: Any) -> dict[str, Any]:
        """The whole greeting; what the server introduces itself with is read, too."""
        answer = await self.ask("initialize", {"capabilities": {}, **params})
        await self.tell("initialized", {})
        await self.until(lambda message: message.get("params", {}).get("type") == "finish")
        return answer

    async def send(self, *messages: Mapping[str, Any] | bytes) -> None:
        for message in messages:
            if not isinstance(message, bytes):
                self._conversation.passed("client", message)
        await super().send(*messages)

    async def tell(self, method: str, params: Any = None) -> None:
        await self.send(notification(method, params))

    async def ask(self, method: str, params: Any = None) -> Any:
        """Send a request; its result. What comes before the answer is in `received`."""
        request = self.request(method, params)
        await self.send(request)
        return await self.answer(request)

    def request(self, method: str, params: Any = None) -> dict[str, Any]:
        self._requested_at = trio.current_time()
        return request(f"r{next(self._ids)}", method, params)

    async def answer(self, request: Mapping[str, Any]) -> Any:
        """The result of a request that was sent."""
        before = (each for each in self.received if each.get("id") == request["id"])
        message = next(before, None) or await self.until(
            lambda each: each.get("id") == request["id"]
        )
        took = trio.current_time() - self._requested_at
        if request["method"] == "shutdown" and "error" in message and took > SHORTEST_LIMIT:
            raise TooSlow(message["error"]["message"])  # something was late to end
        assert "error" not in message, message
        return message["result"]

    def prompt_request(self, message: str, chat: str | None = "c", **params: Any) -> dict[str, Any]:
        known = {} if chat is None else {"chatId": chat}
        return self.request("chat/prompt", {**known, "message": message, **params})

    async def prompt(self, message: str, chat: str | None = "c", **params: Any) -> Any:
        """Send a prompt; its answer."""
        request = self.prompt_request(message, chat, **params)
        await self.send(request)
        return await self.answer(request)

    async def turn(self, message: str, chat: str = "c", **params: Any) -> Contents:
        """One whole turn; its contents, from the first progress to `finished`."""
        begun = len(self.received)
        await self.send(self.prompt_request(message, chat, **params))
        await self.expect_finished(chat)
        return Contents(content for _, content in contents(self.received[begun:], chat))

    async def stop(self, chat: str = "c") -> None:
        await self.tell("chat/promptStop", {"chatId": chat})

    async def hang(self, word: str = "a", chat: str = "c", **params: Any) -> None:
        """Begin a turn that says a word, and does nothing more until it is stopped."""
        await self.prompt(f"say {word}\nwait forever", chat, model=SCRIPT, **params)
        await self.content("text", chat, text=word)

    async def expect_stopped(self, chat: str = "c") -> None:
        """Stop the chat's turn, and read until it has ended."""
        await self.stop(chat)
        await self.expect_finished(chat)

    async def until(self, holds: Any) -> dict[str, Any]:
        """Read until a message comes for which `holds`; that message."""
        while True:
            message = await self.receive()
            assert message is not None, "the server has closed the connection"
            broken = self._conversation.passed("server", message)
            assert not broken, broken[0].message
            if holds(message):
                return message

    async def notice(self, method: str = "$/showMessage", **members: Any) -> dict[str, Any]:
        """Read until such a notification comes, and return its params."""
        message = await self.until(
            lambda each: each.get("method") == method and members.items() <= each["params"].items()
        )
        return dict(message["params"])

    async def content(self, kind: str, chat: str = "c", **members: Any) -> Content:
        """Read until such a content comes to that chat."""

        def holds(message: Mapping[str, Any]) -> bool:
            return any(
                content["type"] == kind and members.items() <= content.items()
                for _, content in contents([message], chat)
            )

        return (await self.until(holds))["params"]["content"]

    async def pending(self) -> dict[str, Any]:
        """Read until a call of any chat waits for the user; the params of its content."""
        message = await self.until(
            lambda each: each.get("params", {}).get("content", {}).get("manualApproval")
        )
        return message["params"]

    async def approve(self, *calls: Content, **more: Any) -> None:
        """Approve calls of the chat `c`, or of the one that is named."""
        await self.send(*(decision("Approve", call, **more) for call in calls))

    async def reject(self, *calls: Content, **more: Any) -> None:
        await self.send(*(decision("Reject", call, **more) for call in calls))

    async def expect_finished(self, chat: str = "c", times: int = 1) -> None:
        """Read until that many turns of the chat have ended."""
        for _ in range(times):
            await self.content("progress", chat, state="finished")

    async def expect_finishes(self, count: int, chat: str = "c") -> None:
        """Read until that many turns of the chat have ended, with those already read."""
        while self.contents(chat).finishes < count:
            await self.until(lambda _: True)

    async def title(self, chat: str = "c") -> str:
        """The chat's title, when it has come."""
        while not (titles := [c for c in self.contents(chat) if c["type"] == "metadata"]):
            await self.until(lambda _: True)
        return titles[-1]["title"]

    async def reopen(self, chat: str = "c") -> list[tuple[str, Content]]:
        """Open a chat; role and content of what is shown of it."""
        begun = len(self.received)
        await self.ask("chat/open", {"chatId": chat})
        return contents(self.received[begun:], chat)

    async def question(self) -> dict[str, Any]:
        """Read until the server asks the user something; that request."""
        return await self.until(lambda each: each.get("method") == "chat/askQuestion")

    async def answer_question(self, question: Mapping[str, Any], words: str | None) -> None:
        """Answer it with a label; None: the user has cancelled it."""
        result = {"answer": words, "cancelled": words is None}
        await self.send({"jsonrpc": "2.0", "id": question["id"], "result": result})

    async def later(self, seconds: float = 300) -> list[Mapping[str, Any]]:
        """Return the messages that come in that time; for tests whose clock jumps."""
        begun = len(self.received)
        await trio.sleep(seconds)
        await self.ask("chat/queryContext", {"query": ""})
        return self.received[begun:-1]

    def contents(self, chat: str = "c", kind: str = "") -> Contents:
        """Return what came for a chat, or those contents of one type."""
        return Contents(
            each for _, each in contents(self.received, chat) if kind in ("", each["type"])
        )

    def model_context(self, chat: str = "c") -> str:
        """Return what a chat would send to a model now."""
        return repr(self.connection.chats.get(chat).history.model_context)

    @property
    def notices(self) -> list[str]:
        """The texts of all messages to the user."""
        return [each["message"] for each in self.notified("$/showMessage")]

    def notified(self, method: str, begun: int = 0) -> list[dict[str, Any]]:
        """Return the params of all notifications of this method."""
        return [each["params"] for each in self.received[begun:] if each.get("method") == method]


def call(name: str, **arguments: Any) -> str:
    """Return a line of a script: the model calls a native tool."""
    return f"call eca_{name} {json.dumps(arguments).decode()}"


def writes(**files: str) -> str:
    """Return a script that writes these files."""
    calls = (call("write_file", path=name, content=text) for name, text in files.items())
    return "\n".join(calls)


def decision(what: str, call: Content, **more: Any) -> dict[str, Any]:
    """Return an approval or a rejection, as a message."""
    return notification(f"chat/toolCall{what}", {"chatId": "c", "toolCallId": call["id"], **more})


def contents(messages: list[Any], chat: str = "c") -> list[tuple[str, Content]]:
    """Role and content of everything that was sent for a chat."""
    return [
        (message["params"]["role"], message["params"]["content"])
        for message in messages
        if message.get("method") == "chat/contentReceived" and message["params"]["chatId"] == chat
    ]


def text(received: list[Content]) -> str:
    return "".join(content["text"] for content in received if content["type"] == "text")


def types(received: list[Content]) -> list[str]:
    """The contents' types, runs of one type once, `finished` by its state."""
    names = ["finished" if each.get("state") == "finished" else each["type"] for each in received]
    return [name for name, _ in itertools.groupby(names)]


def finishes(received: list[Content]) -> int:
    return sum(content.get("state") == "finished" for content in received)


@contextlib.asynccontextmanager
async def editor(
    config: Mapping[str, Any] | None = None,
    *,
    folder: Path | None = None,
    data: Path | None = None,
    about: Mapping[str, Any] = MappingProxyType({}),
    started: bool = True,
    discovers: bool = False,
    load_seconds: float = 2.0,
    **environ: str,
) -> AsyncIterator[Editor]:
    """An editor connected to a server in this process; titles are off unless configured.

    Where nothing else can configure a provider the simulator is named as the default model.

    Args:
        config: the configuration.
        folder: the only folder of the workspace.
        data: where chats are stored, if they are.
        about: more parameters of `initialize`.
        started: whether the editor greets the server.
        discovers: whether the server asks providers for their models.
        load_seconds: how long the greeting waits for the configuration.
        environ: more variables.
    """
    own = any(name == "XDG_CONFIG_HOME" or name.endswith("_API_KEY") for name in environ)
    has_models = own or "providers" in (config or {})
    configured = {
        "chat": {"title": False},
        **({} if has_models else {"defaultModel": ECHO}),
        **(config or {}),
    }
    environ = {
        "XDG_CONFIG_HOME": "/nowhere",
        "XDG_DATA_HOME": "/nowhere",
        "ECA_CONFIG": json.dumps(configured).decode(),
        **({} if data is None else {"XDG_DATA_HOME": str(data)}),
        **environ,
    }
    folders = [] if folder is None else [{"name": "w", "uri": uri_of(folder)}]
    near, far = memory_pair(limit=2**20)
    jumps = isinstance(trio.lowlevel.current_clock(), trio.testing.MockClock)
    with trio.fail_after(100_000 if jumps else 20):
        async with trio.open_nursery() as nursery:
            ours = Editor(far)

            def note(connection: Connection) -> None:
                ours.connection = ServerSide(connection)

            async def run() -> None:
                options = Options(
                    environ=environ,
                    keeps_chats=data is not None,
                    discovers=discovers,
                    load_seconds=load_seconds,
                )
                await serve(near, options, on_connection=note)

            nursery.start_soon(run)
            await trio.testing.wait_all_tasks_blocked()
            if started:
                await ours.start(**{"workspaceFolders": folders, **about})
            yield ours
            await far.aclose()


def provider_config(
    url: str, *, provider: Mapping[str, Any] | None = None, **more: Any
) -> dict[str, Any]:
    """A configuration whose only provider is the scripted one, changed by `provider`."""
    provider = {
        "api": "openai-chat",
        "url": url,
        "key": "sk-not-a-real-key-0123456789",
        "fetchModels": False,
        "models": {"m": {}},
        **(provider or {}),
    }
    return {"providers": {"p": provider}, "defaultModel": "p/m", **more}
