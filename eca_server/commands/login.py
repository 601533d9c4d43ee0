"""`/login` and `/logout`: the key of a provider, pasted into the chat, is stored.

The rule it keeps: the key is parted from the prompt where the prompt is read. What the chat knows
of it is `••••`, so neither echo, queue, title, history, store nor log can ever show it. What may
hold a key is never taken for a prompt, which would send it to a model.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable

import attrs
import trio

from eca_protocol.messages import CommandArgument
from eca_server.chat import Turn
from eca_server.commands.command import Command, Situation, arguments_of, named_command
from eca_server.credentials import LOGIN as STORED
from eca_server.credentials import LoginsFault
from eca_server.llm.known_providers import KNOWN_PROVIDERS
from eca_server.llm.models import Models
from eca_server.secret import Secret, key_from

__all__ = ["LOGIN", "LOGOUT", "MASKED", "LoginPrompt", "login_prompt", "providers_with_keys"]

MASKED = "••••"
"""What stands in a prompt in place of its key; no longer for a longer key."""

_LONGEST = 8192  # characters of a key; servers take no longer headers
_SHORTEST_OF_MANY = 16  # characters of a word that, among others, may be a key
_COMMAND = re.compile(r"/(?:[a-z_:.-]+|[\w:.-]{1,14})")  # what else begins with a slash may be one


@attrs.frozen(kw_only=True)
class LoginPrompt:
    """A prompt that is about a login.

    Attributes:
        shown: the prompt without its key.
        provider: whose login; None: none, or no known one, was named.
        key: what was pasted for it, whatever it is.
        given_up: the user wants no login any more.
    """

    shown: str
    provider: str | None = None
    key: Secret | None = None
    given_up: bool = False

    @property
    def awaits_key_of(self) -> str | None:
        """The provider whose key the chat's next prompt is."""
        is_done = self.given_up or (self.key is not None and _fault_of(self.key) is None)
        return None if is_done else self.provider

    async def run(self, turn: Turn, situation: Situation) -> None:
        """The body of its turn."""
        if self.given_up:
            turn.say("The login was given up; nothing was stored.", role="system")
        elif self.provider is None:
            turn.say(_introduction(situation), role="system")
        elif self.key is None:
            turn.say(
                f"Paste the key of {self.provider} as your next message. It is stored for you "
                "alone, shown nowhere and sent to no model. `cancel` gives it up.",
                role="system",
            )
        elif fault := _fault_of(self.key):
            turn.fail(
                f"That is no key: {fault}. Nothing was stored. Paste the key of {self.provider} "
                "alone, or write `cancel`."
            )
        else:
            await _store(turn, situation, self.provider, self.key)


def login_prompt(
    message: str, *, awaited: str | None, providers: Collection[str]
) -> LoginPrompt | None:
    """What a prompt has to do with a login; None: nothing.

    Args:
        message: the prompt.
        awaited: the provider whose key the chat waits for. A slash command or a sentence ends the
            wait; what may hold a key does not, even if it is none.
        providers: those that can be logged in to.
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


def providers_with_keys(configured: Iterable[str]) -> tuple[str, ...]:
    """The providers that can be logged in to: the configured and the known ones."""
    return tuple(dict.fromkeys((*configured, *KNOWN_PROVIDERS)))


def _command(message: str, providers: Collection[str]) -> LoginPrompt:
    """`/login`, `/login PROVIDER`, `/login PROVIDER KEY`; what else there is may be a key."""
    word, *rest = message.split(maxsplit=2)
    if not rest:
        return LoginPrompt(shown=message)
    provider = _match(rest[0], providers)
    if provider is None:
        return LoginPrompt(shown=f"{word} {MASKED}")
    if len(rest) == 1:
        return LoginPrompt(shown=message, provider=provider)
    shown = f"{word} {rest[0]} {MASKED}"
    return LoginPrompt(shown=shown, provider=provider, key=Secret(rest[1].strip()))


def _match(word: str, providers: Iterable[str]) -> str | None:
    """The provider a word names; capitals mean nothing."""
    return next((name for name in providers if name.lower() == word.lower()), None)


def _fault_of(key: Secret) -> str | None:
    """Why a text is no key; nothing of it is shown."""
    text = key.reveal()
    if len(text) > _LONGEST:
        return f"expected at most {_LONGEST} characters, got {len(text)}"
    if len(text.split()) > 1:
        return "expected one word, got several"
    try:
        key_from(text)
    except ValueError as fault:
        return str(fault)
    return None


def _introduction(situation: Situation) -> str:
    lines = ["`/login PROVIDER` asks for the key of one of these and stores it:", ""]
    for name in providers_with_keys(situation.loaded.config.providers):
        source = _source_of(name, situation.models)
        lines.append(f"- {name}: a key is in {source}" if source else f"- {name}")
    return "\n".join(lines)


async def _store(turn: Turn, situation: Situation, provider: str, key: Secret) -> None:
    logins = situation.logins
    try:
        await trio.to_thread.run_sync(logins.store, provider, key)
    except LoginsFault as fault:
        turn.fail(f"The key of {provider} cannot be stored in {logins.path}: {fault}.")
        return
    source = _source_of(provider, situation.refresh_models())
    text = (
        f"The key of {provider} is stored in {logins.path}, which only you can read. "
        f"Its models are named `{provider}/MODEL`. `/logout {provider}` removes the key."
    )
    if source != STORED:
        text += f" The key in {source} counts before it."
    turn.say(text, role="system")


async def _log_out(turn: Turn, situation: Situation) -> None:
    logins, wanted = situation.logins, arguments_of(turn.prompt.text)
    stored = (await trio.to_thread.run_sync(logins.read)).keys
    provider = _match(wanted, stored)
    if provider is None:
        names = ", ".join(sorted(stored)) or "none"
        turn.fail(f"Expected `/logout PROVIDER`, with one whose key is stored: {names}.")
        return
    try:
        await trio.to_thread.run_sync(logins.remove, provider)
    except LoginsFault as fault:
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
    description="Store the key of a provider; it is asked for and never shown.",
    run=LoginPrompt(shown="/login").run,
    arguments=(CommandArgument(name="provider", description="Whose key; none lists them."),),
)

LOGOUT = Command(
    name="logout",
    description="Remove a key that /login stored.",
    run=_log_out,
    arguments=(
        CommandArgument(name="provider", description="Whose key is removed.", required=True),
    ),
)
