"""`/login` and `/logout`: store and remove a provider's key, pasted or obtained by a login.

Rule: a pasted key is removed from the prompt when the prompt is read. The chat receives `••••`, so
echo, queue, title, history, store and log never contain the key. A text that may contain a key is
never sent to a model.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

import attrs
import trio

from eca_protocol.errors import HTTPError
from eca_protocol.messages import CommandArgument
from eca_protocol.server.texts import arguments_of, named_command
from eca_server.agent.chat import Turn
from eca_server.agent.commands.command import Command, CommandContext, command
from eca_server.config.settings import Provider
from eca_server.models.credentials.flows import KEY_HINTS, Flow, LoginInstructions, flow_of
from eca_server.models.credentials.logins import LoginsError
from eca_server.models.credentials.lookup import LOGIN as STORED
from eca_server.models.credentials.oauth import OAuthError, TokenSet
from eca_server.models.credentials.server_secrets import is_server_entry
from eca_server.models.known_providers import KNOWN_PROVIDERS
from eca_server.models.models import Models
from eca_server.secret import Secret, parse_key

MASKED = "••••"
"""The replacement for a key in a prompt; its length does not depend on the key."""

_MAX_KEY = 8192  # characters; servers accept no longer headers
_MIN_KEY_AMONG_WORDS = 16  # characters
_IN_THE_BROWSER, _WITH_A_KEY = "browser", "key"
_COMMAND = re.compile(r"/(?:[a-z_:.-]+|[\w:.-]{1,14})")  # other words with a slash may be keys


@attrs.frozen(kw_only=True)
class LoginPrompt:
    """A prompt that concerns a login.

    Attributes:
        provider: the provider; None: none, or an unknown one, was named.
        flow: the login flow, if the user wants to log in without a key.
        key: the pasted text, valid or not.
    """

    masked_text: str
    provider: str | None = None
    flow: Flow | None = None
    key: Secret | None = None
    is_cancelled: bool = False

    @property
    def awaits_key_of(self) -> str | None:
        """The provider whose key the chat's next prompt may contain, or None."""
        is_done = self.is_cancelled or (self.key is not None and key_problem(self.key) is None)
        return None if is_done else self.provider

    async def run(self, turn: Turn, context: CommandContext) -> None:
        """Run the turn of the prompt."""
        if self.is_cancelled:
            turn.report("The login was cancelled. Nothing was stored.")
        elif self.provider is None:
            is_unknown = self.masked_text.endswith(MASKED)  # it may have been a key
            known = "There is no provider with this name.\n\n" if is_unknown else ""
            turn.report(known + _introduction(context))
        elif self.flow is not None:
            await _log_in(turn, context, self.provider, self.flow)
        elif self.key is None:
            turn.report(_request_for_key(self.provider, context))
        elif error := key_problem(self.key):
            turn.fail(
                f"This is not a valid key: {error}. Nothing was stored. Paste only the key of "
                f"{self.provider}, or send `cancel`."
            )
        else:
            await _store(turn, context, self.provider, self.key)


def login_prompt(
    message: str, *, awaited: str | None, configured: Mapping[str, Provider]
) -> LoginPrompt | None:
    """Return the login that a prompt concerns, or None.

    A slash command or a sentence ends the wait for a key; a text that may contain a key does not,
    even an invalid one.
    """
    if named_command(message) == LOGIN.name:
        return _command(message, login_flows(configured))
    if awaited is None:
        return None
    words = message.split()
    if not words or words == ["cancel"]:
        return LoginPrompt(masked_text=message, provider=awaited, is_cancelled=True)
    if _COMMAND.fullmatch(words[0]):
        return None
    if len(words) > 1 and max(map(len, words)) < _MIN_KEY_AMONG_WORDS:
        return None
    return LoginPrompt(masked_text=MASKED, provider=awaited, key=Secret(message.strip()))


def login_flows(configured: Mapping[str, Provider]) -> Mapping[str, Flow | None]:
    """Return the configured and the known providers with their login flows; None: key only."""
    names = dict.fromkeys((*configured, *KNOWN_PROVIDERS))
    return {name: flow_of(name, configured.get(name, Provider()).auth) for name in names}


def _command(message: str, providers: Mapping[str, Flow | None]) -> LoginPrompt:
    """Parse `/login`, `/login PROVIDER` and `/login PROVIDER METHOD`; another text may be a key."""
    word, *rest = message.split(maxsplit=2)
    if not rest:
        return LoginPrompt(masked_text=message)
    provider = _match(rest[0], providers)
    if provider is None:
        return LoginPrompt(masked_text=f"{word} {MASKED}")
    flow, how = providers[provider], rest[1].strip() if len(rest) > 1 else ""
    if how in (_IN_THE_BROWSER, _WITH_A_KEY) or not how:
        if how == _WITH_A_KEY or (flow is not None and not how and not flow.starts_directly):
            flow = None
        return LoginPrompt(masked_text=message, provider=provider, flow=flow)
    return LoginPrompt(masked_text=f"{word} {rest[0]} {MASKED}", provider=provider, key=Secret(how))


def _match(word: str, providers: Iterable[str]) -> str | None:
    """Return the provider with this name, ignoring case, or None."""
    return next((name for name in providers if name.lower() == word.lower()), None)


def key_problem(key: Secret) -> str | None:
    """Return the reason why a text is not a valid key, without quoting it, or None."""
    text = key.reveal()
    if len(text) > _MAX_KEY:
        return f"expected at most {_MAX_KEY} characters, got {len(text)}"
    if len(text.split()) > 1:
        return "expected one word, got several"
    try:
        parse_key(text)
    except ValueError as error:
        return str(error)
    return None


def _introduction(context: CommandContext) -> str:
    lines = ["Send `/login PROVIDER` to log in to one of these, or to store its key:", ""]
    for name in login_flows(context.loaded.config.providers):
        source = _source_of(name, context.models)
        lines.append(f"- {name}: key found in {source}" if source else f"- {name}")
    return "\n".join(lines)


def _request_for_key(provider: str, context: CommandContext) -> str:
    text = (
        f"Paste the key of {provider} as your next message. It is stored so that only you can read "
        "it, never shown and never sent to a model. Send `cancel` to cancel."
    )
    flow = login_flows(context.loaded.config.providers)[provider]
    if flow is not None:
        text += f" To log in without a key, send `/login {provider} {_IN_THE_BROWSER}`."
    known = KNOWN_PROVIDERS.get(provider)
    if known is not None and known.key_variable is None:
        is_there = known.probed or provider in context.loaded.config.providers
        text += f" On this machine {provider} needs a key only if it was started with one: " + (
            "`/model` lists its models while it runs."
            if is_there
            else f'without one, add `"{provider}": {{}}` to `providers` in the configuration.'
        )
    return f"{text} {KEY_HINTS.get(provider, '')}".rstrip()


async def _log_in(turn: Turn, context: CommandContext, provider: str, flow: Flow) -> None:
    """Run a login flow; a stop ends it at once."""

    def tell(invitation: LoginInstructions) -> None:
        turn.report(f"{invitation.text}\n\nTo cancel the login, stop this prompt.")
        turn.progress("Waiting for the login")

    try:
        login = await flow.run(context.http, tell)
    except (OAuthError, HTTPError) as error:
        turn.fail(f"Could not log in to {provider}: {error}. Nothing was stored.")
    else:
        await _store(turn, context, provider, login)
    if context.chat.awaits_key_of == provider:
        context.chat.awaits_key_of = None


async def _store(
    turn: Turn, context: CommandContext, provider: str, login: Secret | TokenSet
) -> None:
    logins = context.logins
    kind = "key" if isinstance(login, Secret) else "login"
    try:
        aside = await trio.to_thread.run_sync(logins.store, provider, login)
    except LoginsError as error:
        turn.fail(f"Could not store the {kind} of {provider} in {logins.path}: {error}.")
        return
    models = context.refresh_models()
    source = _source_of(provider, models)
    missing = next(
        (each.missing_setting for each in models.providers if each.name == provider), None
    )
    in_keyring = context.loaded.config.keyring
    place = "the system's keyring" if in_keyring else f"{logins.path}, which only you can read"
    text = (
        f"Stored the {kind} of {provider} in {place}. "
        f"Its models are named `{provider}/MODEL`. Send `/doctor online` to test the {kind}, or "
        f"`/logout {provider}` to remove it."
    )
    if missing is not None:
        text += f" It cannot be used yet: {missing}."
    if aside is not None:
        text += f" The previous file was not a file of logins; it was renamed to {aside}."
    if source != STORED:
        text += f" The key in {source} takes precedence over it."
    turn.report(text)


@command(
    "logout",
    CommandArgument(
        name="provider", description="Provider whose login or key is removed.", required=True
    ),
)
async def log_out(turn: Turn, context: CommandContext) -> None:
    """Remove a login or a key that /login stored."""
    logins, query = context.logins, arguments_of(context.text)
    stored = await trio.to_thread.run_sync(logins.read)
    providers = [name for name in stored.keys if not is_server_entry(name)]
    provider = _match(query, providers)
    if provider is None:
        names = ", ".join(sorted(providers))
        advice = f"Send `/logout PROVIDER` with one of the stored logins: {names}."
        turn.fail(advice if names else "There are no stored logins.")
        return
    kind = "login" if provider in stored.tokens else "key"
    try:
        await trio.to_thread.run_sync(logins.remove, provider)
    except LoginsError as error:
        turn.fail(f"Could not remove the {kind} of {provider} from {logins.path}: {error}.")
        return
    source = _source_of(provider, context.refresh_models())
    rest = f" The key in {source} is used now." if source else ""
    turn.report(f"Removed the stored {kind} of {provider}.{rest}")


def _source_of(provider: str, models: Models) -> str | None:
    keys = (facts.credential for facts in models.providers if facts.name == provider)
    return next((each.source for each in keys if each is not None), None)


LOGIN = Command(
    name="login",
    description="Log in to a provider, or store its key.",
    run=LoginPrompt(masked_text="/login").run,
    arguments=(
        CommandArgument(
            name="provider", description="Name of the provider; without one, all are listed."
        ),
    ),
)
