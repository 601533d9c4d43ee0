"""`/login` and `/logout`: the key of a provider, pasted into the chat or had by a login, is stored.

The rule it keeps: a pasted key is parted from the prompt where the prompt is read. What the chat
knows of it is `••••`, so neither echo, queue, title, history, store nor log can ever show it. What
may hold a key is never taken for a prompt, which would send it to a model.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

import attrs
import trio

from eca_protocol.errors import HTTPError
from eca_protocol.messages import CommandArgument
from eca_server.chat import Turn
from eca_server.commands.command import Command, Situation, arguments_of, named_command
from eca_server.config import Provider
from eca_server.credentials import LOGIN as STORED
from eca_server.credentials import LoginsError, OAuthError, TokenSet
from eca_server.credentials.flows import KEY_HINTS, Flow, LoginInstructions, flow_of
from eca_server.credentials.server_secrets import is_server_entry
from eca_server.llm.known_providers import KNOWN_PROVIDERS
from eca_server.llm.models import Models
from eca_server.secret import Secret, parse_key

__all__ = [
    "LOGIN",
    "LOGOUT",
    "MASKED",
    "LoginPrompt",
    "fault_of_key",
    "login_prompt",
    "ways_to_log_in",
]

MASKED = "••••"
"""What stands in a prompt in place of its key; no longer for a longer key."""

_LONGEST = 8192  # characters of a key; servers take no longer headers
_SHORTEST_OF_MANY = 16  # characters of a word that, among others, may be a key
_IN_THE_BROWSER, _WITH_A_KEY = "browser", "key"
_COMMAND = re.compile(r"/(?:[a-z_:.-]+|[\w:.-]{1,14})")  # what else begins with a slash may be one


@attrs.frozen(kw_only=True)
class LoginPrompt:
    """A prompt that is about a login.

    Attributes:
        shown: the prompt without its key.
        provider: whose login; None: none, or no known one, was named.
        flow: how it is logged in to without a key, if that is wanted.
        key: what was pasted for it, whatever it is.
        given_up: the user wants no login any more.
    """

    shown: str
    provider: str | None = None
    flow: Flow | None = None
    key: Secret | None = None
    given_up: bool = False

    @property
    def awaits_key_of(self) -> str | None:
        """The provider whose key the chat's next prompt is, or may be while a flow still waits."""
        is_done = self.given_up or (self.key is not None and fault_of_key(self.key) is None)
        return None if is_done else self.provider

    async def run(self, turn: Turn, situation: Situation) -> None:
        """The body of its turn."""
        if self.given_up:
            turn.say("The login was cancelled. Nothing was stored.", role="system")
        elif self.provider is None:
            is_unknown = self.shown.endswith(MASKED)  # it may have been a key
            known = "There is no provider of that name.\n\n" if is_unknown else ""
            turn.say(known + _introduction(situation), role="system")
        elif self.flow is not None:
            await _log_in(turn, situation, self.provider, self.flow)
        elif self.key is None:
            turn.say(_request_for_key(self.provider, situation), role="system")
        elif fault := fault_of_key(self.key):
            turn.fail(
                f"That is no key: {fault}. Nothing was stored. Paste the key of {self.provider} "
                "alone, or write `cancel`."
            )
        else:
            await _store(turn, situation, self.provider, self.key)


def login_prompt(
    message: str, *, awaited: str | None, providers: Mapping[str, Flow | None]
) -> LoginPrompt | None:
    """What a prompt has to do with a login; None: nothing.

    Args:
        message: the prompt.
        awaited: the provider whose key the chat waits for. A slash command or a sentence ends the
            wait; what may hold a key does not, even if it is none.
        providers: those that can be logged in to, and how without a key.
    """
    if named_command(message) == LOGIN.name:
        return _command(message, providers)
    if awaited is None:
        return None
    words = message.split()
    if not words or words == ["cancel"]:
        return LoginPrompt(shown=message, provider=awaited, given_up=True)
    if _COMMAND.fullmatch(words[0]):
        return None
    if len(words) > 1 and max(map(len, words)) < _SHORTEST_OF_MANY:
        return None
    return LoginPrompt(shown=MASKED, provider=awaited, key=Secret(message.strip()))


def ways_to_log_in(configured: Mapping[str, Provider]) -> Mapping[str, Flow | None]:
    """The providers that can be logged in to, the configured and the known ones, and how.

    None stands where there is only a key to be pasted.
    """
    names = dict.fromkeys((*configured, *KNOWN_PROVIDERS))
    return {name: flow_of(name, configured.get(name, Provider()).auth) for name in names}


def _command(message: str, providers: Mapping[str, Flow | None]) -> LoginPrompt:
    """`/login`, `/login PROVIDER`, `/login PROVIDER HOW`; what else there is may be a key."""
    word, *rest = message.split(maxsplit=2)
    if not rest:
        return LoginPrompt(shown=message)
    provider = _match(rest[0], providers)
    if provider is None:
        return LoginPrompt(shown=f"{word} {MASKED}")
    flow, how = providers[provider], rest[1].strip() if len(rest) > 1 else ""
    if how in (_IN_THE_BROWSER, _WITH_A_KEY) or not how:
        if how == _WITH_A_KEY or (flow is not None and not how and not flow.starts_directly):
            flow = None
        return LoginPrompt(shown=message, provider=provider, flow=flow)
    shown = f"{word} {rest[0]} {MASKED}"
    return LoginPrompt(shown=shown, provider=provider, key=Secret(how))


def _match(word: str, providers: Iterable[str]) -> str | None:
    """The provider a word names; capitals mean nothing."""
    return next((name for name in providers if name.lower() == word.lower()), None)


def fault_of_key(key: Secret) -> str | None:
    """Why a text is no key; nothing of it is shown."""
    text = key.reveal()
    if len(text) > _LONGEST:
        return f"expected at most {_LONGEST} characters, got {len(text)}"
    if len(text.split()) > 1:
        return "expected one word, got several"
    try:
        parse_key(text)
    except ValueError as fault:
        return str(fault)
    return None


def _introduction(situation: Situation) -> str:
    lines = ["`/login PROVIDER` logs in to one of these, or asks for its key and stores it:", ""]
    for name in ways_to_log_in(situation.loaded.config.providers):
        source = _source_of(name, situation.models)
        lines.append(f"- {name}: a key is in {source}" if source else f"- {name}")
    return "\n".join(lines)


def _request_for_key(provider: str, situation: Situation) -> str:
    text = (
        f"Paste the key of {provider} as your next message. It is stored for you alone, shown "
        "nowhere and sent to no model. Write `cancel` to log in later."
    )
    flow = ways_to_log_in(situation.loaded.config.providers)[provider]
    if flow is not None:
        text += f" Or log in without one: `/login {provider} {_IN_THE_BROWSER}`."
    return f"{text} {KEY_HINTS.get(provider, '')}".rstrip()


async def _log_in(turn: Turn, situation: Situation, provider: str, flow: Flow) -> None:
    """Go the whole way of a login; a stop ends it at once."""

    def tell(invitation: LoginInstructions) -> None:
        turn.say(f"{invitation.text}\n\nStop ends the login.", role="system")
        turn.progress("Waiting for the login")

    try:
        login = await flow.run(situation.http, tell)
    except (OAuthError, HTTPError) as fault:
        turn.fail(f"The login with {provider} failed: {fault}. Nothing was stored.")
    else:
        await _store(turn, situation, provider, login)
    if turn.chat.awaits_key_of == provider:
        turn.chat.awaits_key_of = None


async def _store(turn: Turn, situation: Situation, provider: str, login: Secret | TokenSet) -> None:
    logins = situation.logins
    what = "key" if isinstance(login, Secret) else "login"
    try:
        aside = await trio.to_thread.run_sync(logins.store, provider, login)
    except LoginsError as fault:
        turn.fail(f"The {what} of {provider} cannot be stored in {logins.path}: {fault}.")
        return
    source = _source_of(provider, situation.refresh_models())
    in_keyring = situation.loaded.config.keyring
    place = "the system's keyring" if in_keyring else f"{logins.path}, which only you can read"
    text = (
        f"The {what} of {provider} is stored in {place}. "
        f"Its models are named `{provider}/MODEL`. `/logout {provider}` removes the {what}."
    )
    if aside is not None:
        text += f" The file that was there held no logins; it is kept as {aside}."
    if source != STORED:
        text += f" The key in {source} counts before it."
    turn.say(text, role="system")


async def _log_out(turn: Turn, situation: Situation) -> None:
    logins, wanted = situation.logins, arguments_of(situation.text)
    found = (await trio.to_thread.run_sync(logins.read)).keys
    stored = [name for name in found if not is_server_entry(name)]
    provider = _match(wanted, stored)
    if provider is None:
        names = ", ".join(sorted(stored)) or "none"
        turn.fail(f"Expected `/logout PROVIDER`, with one whose key is stored: {names}.")
        return
    try:
        await trio.to_thread.run_sync(logins.remove, provider)
    except LoginsError as fault:
        turn.fail(f"The key of {provider} cannot be removed from {logins.path}: {fault}.")
        return
    source = _source_of(provider, situation.refresh_models())
    rest = f"; the key in {source} counts now" if source else ""
    turn.say(f"The stored key of {provider} is removed{rest}.", role="system")


def _source_of(provider: str, models: Models) -> str | None:
    """Where the provider's key comes from."""
    found = (facts.credential for facts in models.providers if facts.name == provider)
    return next((each.source for each in found if each is not None), None)


LOGIN = Command(
    name="login",
    description="Log in to a provider, or store its key; it is asked for and never shown.",
    run=LoginPrompt(shown="/login").run,
    arguments=(CommandArgument(name="provider", description="Which one; none lists them."),),
)

LOGOUT = Command(
    name="logout",
    description="Remove a key that /login stored.",
    run=_log_out,
    arguments=(
        CommandArgument(name="provider", description="Whose key is removed.", required=True),
    ),
)
