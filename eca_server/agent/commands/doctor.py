"""`/doctor`: reports the configuration and its problems; `/doctor online` asks each provider.

Rules: nothing is sent without `online`; the report names the source of a key, never the key.
"""

from __future__ import annotations

import platform
import sys
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

import attrs
import trio

from eca_protocol import json
from eca_protocol.messages import CommandArgument
from eca_protocol.server.texts import arguments_of
from eca_server.agent.chat import Turn
from eca_server.agent.chat.store.inspection import describe as describe_store
from eca_server.agent.chat.store.place import STORE_NAME
from eca_server.agent.commands.command import (
    Command,
    CommandContext,
    command,
    mask_keys,
    source_lines,
)
from eca_server.agent.commands.network_report import describe_network
from eca_server.agent.commands.setup_warnings import setup_warnings
from eca_server.agent.commands.trust import report_trust
from eca_server.agent.sandbox.detect import capability
from eca_server.agent.tools.approval import policy_of
from eca_server.config.problems import Problem, Source
from eca_server.config.tool_settings import SandboxSettings
from eca_server.models.backend import BackendError, Request
from eca_server.models.credentials.lookup import Location
from eca_server.models.errors import explanation_of
from eca_server.models.history import Message, TextPart
from eca_server.models.models import Models
from eca_server.models.provider import Provider
from eca_server.printable import enumeration
from eca_server.secret import mask, mask_url
from eca_server.version import version

if TYPE_CHECKING:
    from eca_server.agent.mcp.manager import Manager
    from eca_server.agent.mcp.server import Server

_MAX_MODELS = 10
_MAX_REASON = 500  # characters

SERVER_SECONDS = 2.0
BUILT_IN = "simulator/echo"
TRIAL_SECONDS = 5.0
ONLINE = "online"

_NO_MODEL = (
    "No model is configured: set a key such as ANTHROPIC_API_KEY, send `/login` in a chat, or "
    "configure `providers`."
)

CHECK_SECONDS = 20.0
"""Time limit for the answer of each provider; all are asked at the same time."""

_REQUEST = Request(
    messages=[Message(role="user", parts=(TextPart("Say hi."),))],
    max_output_tokens=16,  # the smallest value that every API accepts
)
_NO_LIST = (404, 405, 501)


def report(
    *,
    about: Iterable[str],
    sources: Iterable[Source],
    problems: Iterable[Problem | str],
    providers: Sequence[Provider],
    selected_model: str | None,
    logins: Iterable[str] = (),
    behavior: str = "agent",
    approval: Iterable[str] = (),
    servers: Iterable[str] = (),
    sandbox: str = "off",
    trust: Iterable[str] = (),
    chats: str = "none yet",
    network: Iterable[str] = (),
) -> str:
    """Return the whole report, readable in a terminal and as Markdown."""
    of_providers = (problem for provider in providers for problem in provider.problems)
    detected = dict.fromkeys((*problems, *of_providers))
    lines = [
        *about,
        "",
        *source_lines(sources),
        *(_section("Problems", [f"- {problem}" for problem in detected]) if detected else ()),
        *_section("Workspace trust", tuple(trust) or ["- no folder is open"]),
        *_section("Providers", (line for provider in providers for line in _provider(provider))),
        *_section("Network", [f"- {line}" for line in network]),
        "",
        f"Stored logins: {', '.join(sorted(logins)) or 'none'}",
        f"Stored chats: {chats}",
        "",
        f"Selected model: {selected_model or 'none'}",
        *([] if any(each.api != "built-in" for each in providers) else ["", _NO_MODEL]),
        *_section("MCP servers", [f"- {line}" for line in tuple(servers) or ("none",)]),
        *_section(
            f"Tool call approval for the agent {behavior} (most specific rule wins, deny before "
            "all)",
            [f"- {line}" for line in approval],
        ),
        "",
        f"Command sandbox (toolCall.sandbox): {sandbox}",
    ]
    credentials = (provider.credential for provider in providers if provider.credential is not None)
    return mask_keys("\n".join(lines), [each.key for each in credentials if each.key is not None])


def _section(title: str, lines: Iterable[str]) -> Iterable[str]:
    return "", f"{title}:", "", *lines


def _provider(provider: Provider) -> Iterator[str]:
    yield f"- {provider.name} ({provider.api})"
    if provider.location is not None:
        yield f"  - url: {_url(provider.location)}"
    yield f"  - key: {_key(provider)}"
    models = list(dict.fromkeys((*provider.models, *provider.listed)))
    none = "none" if provider.endpoint is None else "none listed yet"
    yield f"  - models: {enumeration(models, _MAX_MODELS) or none}"


def _url(location: Location) -> str:
    if location.url is None:
        return "missing"
    shown = mask_url(location.url)
    return f"{shown} (from {location.source})" if location.source else shown


def _key(provider: Provider) -> str:
    name, credential = provider.name, provider.credential
    if credential is None:
        return "none needed"
    if credential.key is not None:
        return f"found in {credential.source}"
    if credential.problem is not None:
        return f"invalid in {credential.source}, see Problems"
    advice = f"set {' or '.join(credential.variables)}, or send `/login {name}` in a chat"
    known = provider.known
    is_expected = bool(known and known.key_variable) or provider.settings.key_env is not None
    return f"missing ({advice})" if is_expected else f"none (if one is needed, {advice})"


async def describe_servers(manager: Manager | None, *, only_failed: bool = False) -> list[str]:
    """Return a line for each MCP server, after a short wait for those that are starting."""
    if manager is None:
        return []
    with trio.move_on_after(SERVER_SECONDS):
        for server in manager:
            await server.listed()
    return [_server(each) for each in manager if each.error is not None or not only_failed]


async def _sandbox(settings: SandboxSettings) -> str:
    """Return the mode and this machine's ability; if the mode is off, do not probe."""
    if settings.mode == "off":
        return "off"
    detected = await trio.to_thread.run_sync(capability)
    network = "network allowed" if settings.network else "no network"
    more = f", {len(settings.writable)} additional writable folders" if settings.writable else ""
    return f"{settings.mode}; {detected.state}; {network}{more}"


def _server(server: Server) -> str:
    offers = {"tool": server.tools, "prompt": server.prompts, "resource": server.resources}
    counts = ", ".join(
        f"{len(each)} {kind}{'s' * (len(each) != 1)}" for kind, each in offers.items() if each
    )
    summary = f"{server.name}: {server.state.value}{f' ({counts})' if counts else ''}"
    if server.error is None:
        return summary
    reason = " ".join(mask(str(server.error), *server.secrets()).split())
    link = f" Log in at {server.error.url}" if server.error.url else ""
    return f"{summary}: {reason[:_MAX_REASON]}.{link}"


def doctor_command(
    load: Callable[[CommandContext], Awaitable[tuple[object, Sequence[str]]]],
) -> Command:
    """Return the command that reports the setup; `load` returns notes about files of commands."""

    @command(
        "doctor",
        CommandArgument(
            name=ONLINE, description=f"`{ONLINE}` also sends a request to each provider."
        ),
        steering="between requests",
    )
    async def check_setup(turn: Turn, context: CommandContext) -> None:
        """Check the configuration, providers, keys, MCP servers and the sandbox."""
        _, notes = await load(context)
        await _check_setup(turn, context, notes)

    return check_setup


async def _check_setup(turn: Turn, context: CommandContext, notes: Iterable[str]) -> None:
    stored = await trio.to_thread.run_sync(context.logins.read)
    warnings = await trio.to_thread.run_sync(setup_warnings, context.loaded.config)
    ours = [*context.models.problems, *([stored.problem] if stored.problem else [])]
    problems: list[Problem | str] = [*context.loaded.problems, *ours, *warnings, *notes]
    text = report(
        about=[
            f"ECA for Python {version()}",
            "",
            f"- Python: {sys.version.split()[0]}",
            f"- Platform: {platform.platform()}",
            f"- JSON engine: {json.ENGINE}",
        ],
        sources=context.loaded.sources,
        problems=problems,
        providers=context.models.providers,
        selected_model=context.model,
        logins=stored.keys,
        behavior=turn.session.profile.agent_name(context.behavior),
        approval=policy_of(context.loaded.config, context.behavior).describe(),
        servers=await describe_servers(context.mcp),
        sandbox=await _sandbox(context.loaded.config.tool_call.sandbox),
        trust=report_trust(context.loaded, [root.path for root in context.workspace.roots]),
        chats=await trio.to_thread.run_sync(
            describe_store, context.logins.path.with_name(STORE_NAME)
        ),
        network=describe_network(context.loaded.config.network),
    )
    text = f"{text}\n\n{await _built_in_model(context.models)}"
    if arguments_of(context.text).lower() != ONLINE:
        turn.report(text)
        return
    turn.report(text)
    turn.progress("Checking the providers")
    results = await check_providers(context.models)
    lines = [f"- {result.provider}: {result.message}" for result in results]
    summary = "\n".join(["Provider check:", "", *(lines or ["- no provider is configured"])])
    if all(result.works for result in results):
        turn.report(summary)
    else:
        turn.fail(summary)


async def _built_in_model(models: Models) -> str:
    """Ask the built-in test model for one answer, and return the result."""
    request = Request(messages=[Message(role="user", parts=(TextPart("works"),))])
    try:
        with trio.fail_after(TRIAL_SECONDS):
            answer = await models.find(BUILT_IN).text(request)
    except (BackendError, trio.TooSlowError) as error:
        answer = f"failed ({error})"
    return f"Built-in test model: {answer}"


@attrs.frozen(kw_only=True)
class CheckResult:
    """The result of checking one provider.

    Attributes:
        works: true if URL and key are valid.
        message: the proof, or the error and what to do.
    """

    provider: str
    works: bool
    message: str


async def check_providers(models: Models) -> list[CheckResult]:
    """Check every provider that is configured or has a key, at the same time.

    Each is sent the cheapest request that proves URL and key. This is the list of models, which is
    free; without such a list, or where it needs no key, it is an answer of a few tokens.
    """
    providers = [provider for provider in models.providers if provider.location is not None]
    results: dict[str, CheckResult] = {}

    async def ask(provider: Provider) -> None:
        results[provider.name] = await _ask(models, provider)

    async with trio.open_nursery() as nursery:
        for provider in providers:
            nursery.start_soon(ask, provider)
    return [results[provider.name] for provider in providers]


async def _ask(models: Models, provider: Provider) -> CheckResult:
    started = trio.current_time()
    works = False
    try:
        with trio.fail_after(CHECK_SECONDS):
            message = await _proof(models, provider)
        works = True
        message = f"works: {message} after {(trio.current_time() - started) * 1000:.0f} ms"
    except BackendError as error:
        message = f"{explanation_of(error)}{_where_to_look(provider, error)}"
    except trio.TooSlowError:
        message = f"no answer within {CHECK_SECONDS:.0f} s. Check the URL and the network."
    return CheckResult(
        provider=provider.name, works=works, message=mask_keys(message, models.secrets)
    )


async def _proof(models: Models, provider: Provider) -> str:
    """Send requests until they prove URL and key, and return the proof as a text.

    Raises:
        BackendError: the check failed.
    """
    known = provider.known_server
    listed = None
    lists = next(
        (make for endpoint, make in models.endpoints.items() if endpoint.provider == provider.name),
        None,
    )
    if lists is not None:
        try:
            count = len(await lists().models())
            listed = f"lists {count} model{'' if count == 1 else 's'}"
        except BackendError as error:
            if error.status not in _NO_LIST and error.kind != "protocol":
                raise
            if _first_model(models, provider) is None:
                raise
    if listed is not None and not (known and known.list_is_public):
        return listed
    name = _first_model(models, provider)
    if name is not None:
        return await _ask_model(models, name)
    if listed is not None:
        return f"{listed}, but this does not prove the key, and no model is configured to ask"
    model = next(iter(provider.models), "any")
    models.find(f"{provider.name}/{model}")  # raises if something is missing
    raise BackendError(
        "configuration", f"no model is configured: set providers.{provider.name}.models"
    )


async def _ask_model(models: Models, name: str) -> str:
    backend = models.find(name).backend
    try:
        async with backend.stream(_REQUEST) as events:
            async for _ in events:
                pass
    except BackendError as error:
        if error.kind != "empty_response":  # a few tokens may be too few for a word
            raise
    return f"{name} answered"


def _first_model(models: Models, provider: Provider) -> str | None:
    return next((name for name in models.names if name.startswith(f"{provider.name}/")), None)


def _where_to_look(provider: Provider, error: BackendError) -> str:
    """Return a sentence on the setting that may have caused an error, or ""."""
    location, credential = provider.location, provider.credential
    if error.kind in ("auth", "permission", "quota") and credential and credential.source:
        return f" The key was found in {credential.source}."
    kinds = ("configuration", "network", "timeout", "protocol")
    at_url = error.kind in kinds or error.status in _NO_LIST
    if at_url and location is not None and location.url is not None:
        source = location.source or "its built-in default"
        return f" The URL is {mask_url(location.url)}, from {source}."
    return ""
