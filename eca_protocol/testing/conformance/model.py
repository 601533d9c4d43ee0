"""The scripted model behind the server under test: one endpoint, a script for each chat.

Which requests are for a title is found out, too, of servers that break the rule for it (W-25).

A chat's script is found by a word in the text of its prompts, so that many cases may use one server
at once. Gates (`wait`), tool names and the ids of calls in a script are the chat's own: a gate's
name means nothing to another chat, a tool is called as the request offered it, whatever prefix it
has there, or as the client was told of it, and no two calls have one id.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final, Literal, Self

import anyio
import attrs

from eca_protocol import json
from eca_protocol.testing.conformance.cases import Stuck
from eca_protocol.testing.provider import Provider, ReceivedRequest
from eca_protocol.testing.script import Reply, Step, reply

__all__ = ["PAGE", "AnswersWith", "ChatModel", "Model", "bare_name"]

AnswersWith = Reply | Callable[[ReceivedRequest], Reply]
"""One item of a chat's script: a reply, or what makes one from the request."""

Names = Callable[[], tuple[str, ...]]
"""Gives the names that there are now."""

_WORD: Final = re.compile(r"\[k([0-9]+)\]")
_PREFIX: Final = re.compile(r"^eca_{1,2}")
_USED_UP: Final = reply("The script has ended.")
_A_TITLE: Final = reply("A title")
_SIBLING_SECONDS: Final = 2.0  # once in a run, and of such servers only

PAGE: Final = "What stands on the page."
"""All the text of the web page."""

_PAGE_PATH: Final = "/page.html"
_PAGE: Final = Reply(
    body=f"<!doctype html><h1>A page</h1><p>{PAGE}</p>",
    headers={"content-type": "text/html; charset=utf-8"},
)


def bare_name(tool: str) -> str:
    """A native tool's name without the prefix that some servers put before it."""
    return _PREFIX.sub("", tool)


class ChatModel:
    """What the model is asked for one chat, and what it answers.

    Attributes:
        word: by which its requests are told from others; it stands in the text of each prompt.
        requests: the requests for this chat, in the order they came, without those for a title.
        title_requests: those.
        title: the reply to each of those.
        prompted: the exact text of each prompt.
    """

    def __init__(
        self, model: Model, number: int, script: Iterable[AnswersWith], listed: Names
    ) -> None:
        self._model = model
        self._listed = listed
        self._number = number
        self._script = deque(script)
        self._replies = 0
        self.word = f"[k{number}]"
        self.title: AnswersWith = _A_TITLE
        self.prompted: list[str] = []
        self.requests: list[ReceivedRequest] = []
        self.title_requests: list[ReceivedRequest] = []
        self.passed: list[tuple[float, Literal["server", "model"], bytes]] = []

    @property
    def first(self) -> ReceivedRequest:
        """The first request.

        Raises:
            Stuck: there was none.
        """
        if not self.requests:
            raise Stuck("a request to the model", "none")
        return self.requests[0]

    @property
    def reached(self) -> frozenset[str]:
        """Names of the gates that a reply of this chat waits, or waited, at."""
        start = self._gate("")
        names = self._model.provider.reached
        return frozenset(name.removeprefix(start) for name in names if name.startswith(start))

    def then(self, *script: AnswersWith) -> None:
        """Go on with these when the script so far is used up."""
        self._script.extend(script)

    def open(self, gate: str) -> None:
        """Let every reply that waits, or will wait, at that gate go on."""
        self._model.provider.open(self._gate(gate))

    async def until(
        self, condition: Callable[[], bool], *, seconds: float = 5, what: str = "the model"
    ) -> None:
        """Wait until that is so; it is looked at whenever something happened at the endpoint.

        Raises:
            DeadlineExceeded: it was not so in time.
        """
        await self._model.provider.until(condition, seconds=seconds, what=what)

    def answer(self, request: ReceivedRequest) -> Reply:
        """The reply to the next request for this chat."""
        self.requests.append(request)
        return self._made(self._script.popleft() if self._script else _USED_UP, request)

    def speaks_of_a_title(self, request: ReceivedRequest) -> bool:
        """Whether its user says that word, but for the prompts."""
        said = "\n".join(_said_by_users(request.body))
        for prompt in self.prompted:
            said = said.replace(prompt, "")
        return "title" in said.lower()

    def answer_title(self, request: ReceivedRequest) -> Reply:
        """The reply to a request for the chat's title."""
        self.title_requests.append(request)
        return self._made(self.title, request)

    def _made(self, answer: AnswersWith, request: ReceivedRequest) -> Reply:
        given = answer if isinstance(answer, Reply) else answer(request)
        offered = tuple(_offered(request.body))
        self._replies += 1
        fitted = attrs.evolve(
            given,
            steps=[self._fitted(step, offered) for step in given.steps],
            before_headers=[self._fitted(step, offered) for step in given.before_headers],
        )
        now = anyio.current_time()
        self.passed.append((now, "server", json.dumps(request.body)))
        self.passed.append((now, "model", _told(given)))
        return fitted

    def _fitted(self, step: Step, offered: tuple[str, ...]) -> Step:
        if "wait" in step:
            return {**step, "wait": self._gate(step["wait"])}
        if "tool_call" in step:
            name = _called(step["tool_call"], offered, self._listed())
            own_id = f"{step.get('id', 'call')}_{self._number}_{self._replies}"
            return {**step, "tool_call": name, "id": own_id}
        return step

    def _gate(self, name: str) -> str:
        return f"{self.word}{name}"


class Model:
    """The endpoint of a whole run; `async with` it.

    Attributes:
        provider: the endpoint itself, with every request that came.
    """

    def __init__(self) -> None:
        self._chats: dict[str, ChatModel] = {}
        self._titles = _Titles()
        self.provider = Provider(
            self._answer,
            models=("scripted",),
            title=self._answer,
            others={_PAGE_PATH: _PAGE},
        )

    async def __aenter__(self) -> Self:
        await self.provider.__aenter__()
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self.provider.__aexit__(*exc_info)

    @property
    def url(self) -> str:
        """The base URL to configure, with the `/v1` that such bases have."""
        return self.provider.url

    @property
    def page_url(self) -> str:
        """A web page on the same machine."""
        return f"{self.url}{_PAGE_PATH}"

    @property
    def page_was_fetched(self) -> bool:
        """Whether anybody has asked for that page."""
        return any(each.target.endswith(_PAGE_PATH) for each in self.provider.other_requests)

    def chat(self, script: Iterable[AnswersWith], *, listed: Names = tuple) -> ChatModel:
        """Take the script of another chat.

        Args:
            script: its replies, in order.
            listed: the names of the native tools that the server tells its client of.
        """
        made = ChatModel(self, len(self._chats) + 1, script, listed)
        self._chats[made.word] = made
        return made

    async def _answer(self, request: ReceivedRequest) -> Reply:
        chat = self._chat_of(request.body)
        says_it = request.is_title or (
            chat is not None and not any(_offered(request.body)) and chat.speaks_of_a_title(request)
        )
        if await self._titles.wants_one(request, says_it=says_it):
            return _A_TITLE if chat is None else chat.answer_title(request)
        return _USED_UP if chat is None else chat.answer(request)

    def _chat_of(self, body: Any) -> ChatModel | None:
        words = list(_WORD.finditer("\n".join(_said_by_users(body))))
        return self._chats.get(words[-1].group()) if words else None


class _Titles:
    """Tells the requests for a title from those of the chats.

    They say that word, some in the place of the user, and they offer no tools. What says it and
    offers tools is one of a server's chats whose own instructions say it (W-25b is broken), or a
    request for a title with tools (W-25a is): the server's other requests tell which, so it waits
    a moment for the first of them.
    """

    def __init__(self) -> None:
        self._have_tools: bool | None = None
        self._is_known = anyio.Event()

    def _learn(self, *, have_tools: bool) -> None:
        self._have_tools = have_tools
        self._is_known.set()

    async def wants_one(self, request: ReceivedRequest, *, says_it: bool) -> bool:
        if not says_it:
            if self._have_tools is None:
                self._learn(have_tools=True)
            return False
        if not any(_offered(request.body)):
            self._learn(have_tools=False)
            return True
        with anyio.move_on_after(_SIBLING_SECONDS):
            await self._is_known.wait()
        if self._have_tools is None:
            self._learn(have_tools=False)
        return self._have_tools is True


def _said_by_users(body: Any) -> Iterator[str]:
    messages = body.get("messages") if isinstance(body, Mapping) else None
    for message in messages if isinstance(messages, list) else ():
        if isinstance(message, Mapping) and message.get("role") == "user":
            yield from _texts(message.get("content"))


def _texts(content: Any) -> Iterator[str]:
    if isinstance(content, str):
        yield content
    for part in content if isinstance(content, list) else ():
        if isinstance(part, Mapping) and isinstance(part.get("text"), str):
            yield part["text"]


def _offered(body: Any) -> Iterator[str]:
    """The names of the tools that a request offers."""
    tools = body.get("tools") if isinstance(body, Mapping) else None
    for tool in tools if isinstance(tools, list) else ():
        if isinstance(tool, Mapping):
            function = tool.get("function")
            name = (function if isinstance(function, Mapping) else tool).get("name")
            if isinstance(name, str):
                yield name


def _called(name: str, offered: tuple[str, ...], listed: tuple[str, ...]) -> str:
    """The offered name of that tool.

    One that is not offered is called as the list has it, with the prefix that others are offered
    with; one that is in no list by its own name.
    """
    if name in offered:
        return name
    for each in offered:
        if bare_name(each) == bare_name(name):
            return each
    known = next((each for each in listed if bare_name(each) == bare_name(name)), None)
    if known is None:
        return name
    has_prefix = known != bare_name(known) or not any(each.startswith("eca_") for each in offered)
    return known if has_prefix else f"eca_{known}"


def _told(answer: Reply) -> bytes:
    """A reply as a report shows it: its status, then its body or its steps."""
    if answer.body is not None:
        shown: Any = answer.body
    else:
        shown = [*answer.before_headers, *answer.steps]
    return f"HTTP {answer.status}\n".encode() + json.dumps(_readable(shown))


def _readable(value: Any) -> Any:
    """Bytes in steps as text, so that all of it is JSON."""
    if isinstance(value, bytes):
        return value.decode("utf-8", "backslashreplace")
    if isinstance(value, Mapping):
        return {key: _readable(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_readable(each) for each in value]
    return value
