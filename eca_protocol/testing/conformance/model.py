"""The scripted model behind the server under test: one endpoint, a script for each chat.

Requests for a title are recognized even of servers that break the rule for them (W-25).

A marker in the prompts selects a chat's script, so that many cases can share one server. Gates
(`wait`), tool names and call ids in a script are the chat's own: gates are not shared between
chats, a tool is called by the name in the request, or in the announcement to the client, and call
ids are unique.
"""

from __future__ import annotations

import json
import re
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator
from typing import Any, Final, Literal

import anyio
import attrs

from eca_protocol.errors import DeadlineExceeded
from eca_protocol.json import dumps
from eca_protocol.testing.conformance.verdicts import Unmet
from eca_protocol.testing.members import at, list_at, object_at, text_at
from eca_protocol.testing.provider import Provider, ReceivedRequest
from eca_protocol.testing.script import Reply, Step, reply

__all__ = ["PAGE", "AnswersWith", "ChatModel", "Model", "bare_name", "tools_in"]

AnswersWith = Reply | Callable[[ReceivedRequest], Reply]
"""An item of a chat's script: a reply, or a function from the request to a reply."""

Names = Callable[[], tuple[str, ...]]
"""Returns the current names."""

_MARKER: Final = re.compile(r"\[k([0-9]+)\]")
_CALL_ID: Final = re.compile(r"_([0-9]+)_[0-9]+$")
"""The end of a call's id: the number of its chat and of the reply."""
_PREFIX: Final = re.compile(r"^eca_{1,2}")
_USED_UP: Final = reply("The script has ended.")
_A_TITLE: Final = reply("A title")
_SIBLING_SECONDS: Final = 2.0  # once in a run, and of such servers only

PAGE: Final = "The text of the page."
"""All the text of the web page."""

_PAGE_PATH: Final = "/page.html"
_PAGE: Final = Reply(
    body=f"<!doctype html><h1>A page</h1><p>{PAGE}</p>",
    headers={"content-type": "text/html; charset=utf-8"},
)


def bare_name(tool: str) -> str:
    """Return a native tool's name without the prefix of some servers."""
    return _PREFIX.sub("", tool)


class ChatModel:
    """The model of one chat: its requests and its replies.

    Attributes:
        marker: identifies the chat's requests; it is in the text of each prompt.
        requests: the requests for this chat, in the order they came, without those for a title.
        title_requests: the requests for a title.
        title: the reply to a request for a title.
        prompts: the exact text of each prompt.
        companions: the markers of other chats in requests with this chat's marker.
    """

    def __init__(
        self, model: Model, number: int, script: Iterable[AnswersWith], listed: Names
    ) -> None:
        self._model = model
        self._listed = listed
        self._number = number
        self._script = deque(script)
        self._replies = 0
        self.marker: str = f"[k{number}]"
        self.title: AnswersWith = _A_TITLE
        self.prompts: list[str] = []
        self.companions: set[str] = set()
        self.requests: list[ReceivedRequest] = []
        self.title_requests: list[ReceivedRequest] = []
        self.traffic: list[tuple[float, Literal["server", "model"], bytes]] = []

    @property
    def first(self) -> ReceivedRequest:
        """The first request."""
        if not self.requests:
            raise Unmet("a request to the model", "none")
        return self.requests[0]

    @property
    def reached_gates(self) -> frozenset[str]:
        """The names of the gates that a reply of this chat waits, or waited, at."""
        start = self._gate("")
        names = self._model.reached
        return frozenset(name.removeprefix(start) for name in names if name.startswith(start))

    def with_marker(self, text: str) -> str:
        """Return a prompt with the marker."""
        return f"{text} {self.marker}"

    def open(self, gate: str) -> None:
        """Open a gate for all replies that wait, or will wait, at it."""
        self._model.open(self._gate(gate))

    async def until(
        self, condition: Callable[[], bool], expected: str, *, seconds: float = 5
    ) -> None:
        """Wait until a condition holds; it is checked at each event of the endpoint."""
        try:
            await self._model.until(condition, seconds=seconds, what="the model")
        except DeadlineExceeded as late:
            raise Unmet(expected, str(late)) from late

    async def wait_for_requests(self, times: int = 1) -> None:
        """Wait until the model has received that many requests."""
        await self.until(lambda: len(self.requests) >= times, f"{times} requests to the model")

    async def wait_for_gate(self, gate: str) -> None:
        """Wait until a reply of this chat reaches a gate."""
        await self.until(
            lambda: gate in self.reached_gates, f"a request to the model, at the step {gate!r}"
        )

    def answer(self, request: ReceivedRequest) -> Reply:
        """Return the reply to the next request for this chat."""
        self.requests.append(request)
        return self._prepare(self._script.popleft() if self._script else _USED_UP, request)

    def mentions_title(self, request: ReceivedRequest) -> bool:
        """Return whether the user's messages, without the prompts, contain "title"."""
        text = "\n".join(_user_texts(request.body))
        for prompt in self.prompts:
            text = text.replace(prompt, "")
        return "title" in text.lower()

    def answer_title(self, request: ReceivedRequest) -> Reply:
        """Return the reply to a request for the chat's title."""
        self.title_requests.append(request)
        return self._prepare(self.title, request)

    def _prepare(self, answer: AnswersWith, request: ReceivedRequest) -> Reply:
        made = answer if isinstance(answer, Reply) else answer(request)
        offered = tuple(_offered_tools(request.body))
        self._replies += 1
        adapted = attrs.evolve(
            made,
            steps=[self._adapt(step, offered) for step in made.steps],
            before_headers=[self._adapt(step, offered) for step in made.before_headers],
        )
        now = anyio.current_time()
        self.traffic.append((now, "server", dumps(request.body)))
        self.traffic.append((now, "model", _report_bytes(made)))
        return adapted

    def _adapt(self, step: Step, offered: tuple[str, ...]) -> Step:
        if "wait" in step:
            return {**step, "wait": self._gate(step["wait"])}
        if "tool_call" in step:
            name = _tool_name_for(step["tool_call"], offered, self._listed())
            own_id = f"{step.get('id', 'call')}_{self._number}_{self._replies}"
            return {**step, "tool_call": name, "id": own_id}
        return step

    def _gate(self, name: str) -> str:
        return f"{self.marker}{name}"


class Model(Provider):
    """The endpoint of a whole run, with the chats of its cases.

    Attributes:
        offered_tools: the names of the tools in all requests.
    """

    def __init__(self) -> None:
        super().__init__(
            self._answer, models=("scripted",), title=self._answer, others={_PAGE_PATH: _PAGE}
        )
        self.offered_tools: set[str] = set()
        self._chats: dict[str, ChatModel] = {}
        self._titles = _TitleRequests()

    @property
    def page_url(self) -> str:
        """A web page on the same machine."""
        return f"{self.url}{_PAGE_PATH}"

    @property
    def page_was_fetched(self) -> bool:
        """True if the page was requested."""
        return any(each.target.endswith(_PAGE_PATH) for each in self.other_requests)

    def chat(self, script: Iterable[AnswersWith], *, listed: Names = tuple) -> ChatModel:
        """Add a chat; `listed` returns the names of the native tools that its server announces."""
        made = ChatModel(self, len(self._chats) + 1, script, listed)
        self._chats[made.marker] = made
        return made

    async def _answer(self, request: ReceivedRequest) -> Reply:
        self.offered_tools.update(_offered_tools(request.body))
        chat = self._chat_of(request.body)
        mentions_title = request.is_title or (
            chat is not None
            and not any(_offered_tools(request.body))
            and chat.mentions_title(request)
        )
        if await self._titles.is_for_title(request, mentions_title=mentions_title):
            return _A_TITLE if chat is None else chat.answer_title(request)
        return _USED_UP if chat is None else chat.answer(request)

    def _chat_of(self, body: Any) -> ChatModel | None:
        """Return the chat of a request: that of its last tool result, else of its last prompt."""
        named = [f"[k{number}]" for number in _MARKER.findall("\n".join(_user_texts(body)))]
        for marker in {*named} & self._chats.keys():
            self._chats[marker].companions.update({*named} - {marker})
        messages = list_at(body, "messages")
        last = messages[-1] if messages else None
        call = _CALL_ID.search(text_at(last, "tool_call_id"))  # empty if it is no result
        owner = f"[k{call[1]}]" if call else ""
        if owner not in named:
            owner = named[-1] if named else ""
        return self._chats.get(owner)


class _TitleRequests:
    """A classifier for requests for a title.

    They contain the word "title", some as the user, and offer no tools. A request with the word and
    with tools is a chat's whose instructions have the word (a breach of W-25b), or a request for
    a title with tools (a breach of W-25a). The server's other requests show which, so the
    classifier waits a moment for the first of them.
    """

    def __init__(self) -> None:
        self._have_tools: bool | None = None
        self._is_known = anyio.Event()

    def _learn(self, *, have_tools: bool) -> None:
        self._have_tools = have_tools
        self._is_known.set()

    async def is_for_title(self, request: ReceivedRequest, *, mentions_title: bool) -> bool:
        if not mentions_title:
            if self._have_tools is None:
                self._learn(have_tools=True)
            return False
        if not any(_offered_tools(request.body)):
            self._learn(have_tools=False)
            return True
        with anyio.move_on_after(_SIBLING_SECONDS):
            await self._is_known.wait()
        if self._have_tools is None:
            self._learn(have_tools=False)
        return self._have_tools is True


def _user_texts(body: Any) -> Iterator[str]:
    for message in list_at(body, "messages"):
        if at(message, "role") == "user":
            yield from _texts_in(message.get("content"))


def _texts_in(content: Any) -> Iterator[str]:
    if isinstance(content, str):
        yield content
    for part in content if isinstance(content, list) else ():
        if isinstance(at(part, "text"), str):
            yield part["text"]


def _offered_tools(body: Any) -> Iterator[str]:
    yield from (name for name, _ in tools_in(body))


def tools_in(body: Any) -> Iterator[tuple[str, Collection[str]]]:
    """Yield the tools that a request offers: the name and the names of the parameters."""
    for tool in list_at(body, "tools"):
        shown = object_at(tool, "function") or tool
        if isinstance(at(shown, "name"), str):
            schema = shown.get("parameters", shown.get("input_schema"))
            yield shown["name"], object_at(schema, "properties")


def _tool_name_for(name: str, offered: tuple[str, ...], listed: tuple[str, ...]) -> str:
    """Return the offered name of that tool.

    A tool that is not offered gets its announced name, with the prefix of the offered ones; an
    unknown tool keeps its name.
    """
    if name in offered:
        return name
    for each in offered:
        if bare_name(each) == bare_name(name):
            return each
    listed_name = next((each for each in listed if bare_name(each) == bare_name(name)), None)
    if listed_name is None:
        return name
    has_prefix = listed_name != bare_name(listed_name) or not any(
        each.startswith("eca_") for each in offered
    )
    return listed_name if has_prefix else f"eca_{listed_name}"


def _report_bytes(answer: Reply) -> bytes:
    """Return a reply as a report shows it, with text for the bytes in its steps."""
    shown = [*answer.before_headers, *answer.steps] if answer.body is None else answer.body
    text = json.dumps(shown, ensure_ascii=False, separators=(",", ":"), default=_decoded)
    return f"HTTP {answer.status}\n{text}".encode()


def _decoded(data: bytes) -> str:
    return data.decode("utf-8", "backslashreplace")
