"""`ecp agent`: this server's chat as an agent that can be evaluated, over stdio or HTTP.

The chat is the one of an editor: any configured model, the native tools and MCP servers, the
configured approval policy. Each conversation is a new chat, and is not saved.
"""

from __future__ import annotations

import argparse
import logging
import os
import sys

import trio

from eca_protocol.ecp import Agent, chat_agent, run_stdio, serving_http
from eca_protocol.messages import InitializationOptions
from eca_server.connection.features.host import Options
from eca_server.connection.local import local_client
from eca_server.secret import MaskingFilter
from eca_server.system.log_handler import log_handler
from eca_server.system.signals import run_until_a_signal

_UNTITLED = InitializationOptions(extras={"chat": {"title": False}})
"""Options without a title, which would cost a model request and is not shown."""


def serve_chat(arguments: argparse.Namespace) -> int:
    """Serve the chat by the options of `ecp agent`; return the exit code.

    It ends with standard input, or by a signal.

    Raises:
        OSError, ExceptionGroup: the port cannot be listened on.
    """
    masking = MaskingFilter()
    handler = log_handler(sys.stderr)
    handler.addFilter(masking)
    logging.basicConfig(level=logging.WARNING, handlers=[handler])
    options = Options(
        environ=os.environ,
        config_file=arguments.config_file,
        hide=lambda secrets: masking.hide(*secrets),
    )
    model, behavior, approve = arguments.model, arguments.behavior, arguments.approve
    folder = arguments.workspace.resolve()

    async def serve() -> None:
        async with local_client(
            options,
            workspace_folders=[folder],
            initialization_options=_UNTITLED,
            on_approval="allow" if approve else "reject",  # of subagents, too
        ) as local:
            await local.client.wait_for_config()
            agent = chat_agent(local.client, model=model, behavior=behavior, approve=approve)
            async with trio.open_nursery() as nursery:
                nursery.start_soon(local.show_messages)
                await _serve(agent, arguments.http)
                nursery.cancel_scope.cancel()

    _, number = run_until_a_signal(serve)
    return 0 if number is None else 128 + number


async def _serve(agent: Agent, port: int | None) -> None:
    if port is None:
        await run_stdio(agent)
        return
    async with serving_http(agent, port=port) as server:
        sys.stderr.write(f"{server.url}/ecp\n")
        sys.stderr.flush()
        await trio.sleep_forever()
