"""`/doctor`: reports the configuration and its problems; `/doctor online` asks each provider.

Rules: nothing is sent without `online`; the report names the source of a key, never the key.
"""

from __future__ import annotations

import platform
import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

import trio

from eca_protocol import json
from eca_protocol.messages import CommandArgument
from eca_protocol.server.texts import arguments_of
from eca_server.agent.chat import Turn
from eca_server.agent.commands.command import CommandContext, command, mask_keys, source_lines
from eca_server.agent.commands.provider_check import check_providers
from eca_server.agent.commands.setup_warnings import setup_warnings
from eca_server.agent.commands.trust import report_trust
from eca_server.agent.sandbox.detect import capability
from eca_server.agent.tools.approval import policy_of
from eca_server.config.problems import Problem, Source
from eca_server.config.tool_settings import SandboxSettings
from eca_server.models.backend import BackendError, Request
from eca_server.models.credentials.lookup import Location
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


def report(
    *,
    about: Iterable[str],
    sources: Iterable[Source],
    problems: Iterable[Problem],
    providers: Sequence[Provider],
    selected_model: str | None,
    logins: Iterable[str] = (),
    behavior: str = "agent",
    approval: Iterable[str] = (),
    servers: Iterable[str] = (),
    sandbox: str = "off",
    trust: Iterable[str] = (),
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
        "",
        f"Stored logins: {', '.join(sorted(logins)) or 'none'}",
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
    keys = [each.key for each in credentials if each.key is not None]
    return mask_keys("\n".join(lines), keys)


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
    reason = " ".join(mask(str(server.error), *server.settings.secrets).split())
    link = f" Log in at {server.error.url}" if server.error.url else ""
    return f"{summary}: {reason[:_MAX_REASON]}.{link}"


@command(
    "doctor",
    CommandArgument(name=ONLINE, description=f"`{ONLINE}` also sends a request to each provider."),
    steering="between requests",
)
async def check_setup(turn: Turn, context: CommandContext) -> None:
    """Check the configuration, providers, keys, MCP servers and the sandbox."""
    stored = await trio.to_thread.run_sync(context.logins.read)
    warnings = await trio.to_thread.run_sync(setup_warnings, context.loaded.config)
    ours = [*context.models.problems, *([stored.problem] if stored.problem else [])]
    problems = [*context.loaded.problems, *ours, *warnings]
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
