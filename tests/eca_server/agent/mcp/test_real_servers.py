"""Sessions with servers that people run: `everything` and filesystem of npm, time of PyPI."""

import os
import socket
import subprocess
import sys

import pytest
import trio

from eca_protocol.messages.lifecycle import WorkspaceFolder
from eca_protocol.server.roots import parse_roots, uri_of
from eca_server.agent.mcp import messages as m
from eca_server.agent.mcp.errors import MCPError
from eca_server.agent.mcp.server_log import ServerLog
from eca_server.agent.mcp.session import Session
from eca_server.config.mcp_settings import MCPServer
from eca_server.models.history import ImagePart
from tests.eca_server.agent.mcp.scripted import talking_to
from tests.eca_server.agent.mcp.web import session_at, text_of
from tests.node import node, node_modules

SECONDS = 20.0


def of_npm(name: str, *arguments: str) -> MCPServer:
    file = node_modules() / "@modelcontextprotocol" / f"server-{name}" / "dist" / "index.js"
    return MCPServer(command=node(), args=(str(file), *arguments))


def of_pypi(module: str, protocol: str = "auto") -> MCPServer:
    run = ("-m", module)
    return MCPServer(command=sys.executable, args=run, protocol=protocol)


async def call(session: Session, name: str, **arguments: object) -> str:
    """The text of a result."""
    result = await session.call_tool(name, arguments, deadline=SECONDS)
    assert not result.is_error, result
    return text_of(result)


async def refusal(session: Session, name: str, **arguments: object) -> str:
    """The text of a result that is an error."""
    result = await session.call_tool(name, arguments, deadline=SECONDS)
    assert result.is_error
    return str(result.content)


@pytest.mark.long
async def test_everything_offers_all_kinds_of_things(tmp_path):
    roots, _ = parse_roots([WorkspaceFolder(name="here", uri=uri_of(tmp_path))])
    log = ServerLog("everything")
    async with talking_to(of_npm("everything", "stdio"), log, lambda: roots) as session:
        tools = {tool.name for tool in await session.list_tools()}
        assert {"echo", "get-roots-list", "get-tiny-image"} <= tools
        assert "simulate-research-query" not in tools  # it runs as a task only
        await _use(session)
        assert uri_of(tmp_path) in await call(session, "get-roots-list")
    assert "Starting default" in log.last_lines()


@pytest.mark.long
@pytest.mark.parametrize(("transport", "path"), [("streamableHttp", "mcp"), ("sse", "sse")])
async def test_everything_is_offered_over_http(transport, path):
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    settings = of_npm("everything", transport)
    command = [settings.command or "", *settings.args]
    environment = {**os.environ, "PORT": str(port)}
    with subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True) as process:
        while str(port) not in process.stderr.readline():
            assert process.poll() is None
        try:
            async with session_at(f"http://127.0.0.1:{port}/{path}") as session:
                await _use(session)
        finally:
            process.kill()


async def _use(session: Session) -> None:
    await _every_content_arrives(session)
    await _check_progress_and_cancellation(session)
    await _prompts_and_resources_are_given(session)


async def _every_content_arrives(session: Session) -> None:
    assert await call(session, "echo", message="h\xe9 \U0001f642") == "Echo: h\xe9 \U0001f642"
    image = await session.call_tool("get-tiny-image", {}, deadline=SECONDS)
    (picture,) = [part for part in image.content if isinstance(part, ImagePart)]
    assert (picture.media_type, picture.data[:4]) == ("image/png", b"\x89PNG")
    where = {"location": "Chicago"}
    weather = await session.call_tool("get-structured-content", where, deadline=SECONDS)
    assert weather.structured["conditions"]
    links = await session.call_tool("get-resource-links", {"count": 2}, deadline=SECONDS)
    assert sum("demo://resource" in str(part) for part in links.content) == 2
    asked_for = {"resourceType": "Text", "resourceId": 1}
    embedded = await session.call_tool("get-resource-reference", asked_for, deadline=SECONDS)
    assert [type(part) for part in embedded.content].count(m.ResourceContents) == 1
    assert "not found" in await refusal(session, "no-such-tool")


async def _check_progress_and_cancellation(session: Session) -> None:
    feed: list[m.Progress] = []
    with trio.CancelScope() as scope:
        for on_progress in (feed.append, lambda _: scope.cancel()):
            await session.call_tool(
                "trigger-long-running-operation",
                {"duration": 0.1, "steps": 2},
                deadline=SECONDS,
                on_progress=on_progress,
            )
    assert (feed[0].progress, feed[0].total) == (1, 2)
    assert scope.cancelled_caught


async def _prompts_and_resources_are_given(session: Session) -> None:
    prompts = {prompt.name: prompt for prompt in await session.list_prompts()}
    arguments = [(each.name, each.required) for each in prompts["args-prompt"].arguments]
    assert arguments == [("city", True), ("state", False)]
    (message,) = await session.get_prompt("args-prompt", {"city": "Ghent"})
    assert "Ghent" in message.content.text
    with pytest.raises(MCPError, match="city") as raised:
        await session.get_prompt("args-prompt", {})
    assert raised.value.kind == "refused"
    features = "demo://resource/static/document/features.md"
    assert features in {resource.uri for resource in await session.list_resources()}
    (contents,) = await session.read_resource(features)
    assert contents.text.startswith("#")
    templates = [each.uri for each in await session.list_resource_templates()]
    assert "demo://resource/dynamic/blob/{resourceId}" in templates
    (blob,) = await session.read_resource("demo://resource/dynamic/blob/7")
    assert b"Resource 7" in blob.blob
    with pytest.raises(MCPError, match="nowhere"):
        await session.read_resource("demo://nowhere")


@pytest.mark.long
async def test_filesystem_works_inside_our_roots_whatever_it_was_started_with(tmp_path):
    root, other = tmp_path / "a root", tmp_path / "other"
    root.mkdir()
    other.mkdir()
    roots, _ = parse_roots([WorkspaceFolder(name="r", uri=uri_of(root))])
    async with talking_to(of_npm("filesystem", str(other)), roots=lambda: roots) as session:
        assert await session.list_prompts() == ()
        assert len(await session.list_tools()) >= 14
        with trio.fail_after(SECONDS):
            while str(root) not in await call(session, "list_allowed_directories"):
                await trio.lowlevel.checkpoint()  # it asks for the roots when it likes
        await call(session, "write_file", path=str(root / "a.txt"), content="h\xe9\n")
        assert (root / "a.txt").read_text("utf-8") == "h\xe9\n"
        large = root / "large.txt"
        large.write_text("x" * 5_000_000)
        assert len(await call(session, "read_text_file", path=str(large))) == 5_000_000
        assert "denied" in await refusal(session, "read_text_file", path=str(other / "b.txt"))


@pytest.mark.long
async def test_a_time_server_works_without_a_handshake():
    arguments = {"source_timezone": "UTC", "time": "12:00", "target_timezone": "Asia/Tokyo"}
    async with talking_to(of_pypi("mcp_server_time", protocol="2026-07-28")) as session:
        assert session.era.revision == "2026-07-28"
        _, tool = await session.list_tools()
        assert tool.name == "convert_time"
        assert set(tool.input_schema["required"]) == set(arguments)
        result = await session.call_tool("convert_time", arguments, deadline=SECONDS)
        assert "T21:00:00+09:00" in result.structured["target"]["datetime"]
        nowhere = {**arguments, "target_timezone": "Nowhere"}
        assert "Nowhere" in await refusal(session, "convert_time", **nowhere)
        assert "no_such_tool" in await refusal(session, "no_such_tool")
