"""A server of fifteen lines conforms: no row fails, and what needs no model is judged."""

import functools
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import anyio
import pytest

from eca_protocol import Prompt, Server, ServerChat
from eca_protocol.revisions import Revision
from eca_protocol.testing.conformance.cases import server_cases
from eca_protocol.testing.conformance.run import Run
from eca_protocol.testing.conformance.suite import run_suite
from eca_protocol.testing.conformance.target import Target
from tests.eca_protocol.server import fifteen_lines

FILE = Path(fifteen_lines.__file__)
REPOSITORY = Path(__file__).resolve().parents[3]


async def serve(transport: object, _config: object) -> int:
    return await fifteen_lines.server.serve(transport)  # type: ignore[arg-type]


def judged(target: Target, backend: str, *cases: str) -> Run:
    chosen = [server_cases()[name] for name in cases] or None
    return anyio.run(functools.partial(run_suite, target, cases=chosen, jobs=8), backend=backend)


def check(run: Run, *, passes: int) -> None:
    """No row is broken, and at least this many are kept."""
    broken = [each.id for each in run.findings if each.verdict in {"fail", "warn"}]
    assert (broken, run.incidents, run.suite_errors) == ([], (), ())
    assert run.counts()["pass"] >= passes


async def serve_tools(transport: object, _config: object) -> int:
    server = Server(name="files")

    @server.tool("delete", "Delete a file.")
    async def delete(arguments: Mapping[str, Any]) -> str:
        return f"deleted {arguments}"

    @server.prompt
    async def answer(chat: ServerChat, prompt: Prompt) -> None:
        await chat.tool_call("delete", {"path": prompt.text})

    return await server.serve(transport)  # type: ignore[arg-type]


def test_its_code_has_fifteen_lines() -> None:
    lines = [line for line in FILE.read_text().splitlines() if line.strip()]
    assert len(lines) <= 15


def test_it_conforms_where_no_model_is_waited_for() -> None:
    quick = ("bodies.", "configuration.", "deletion.", "framing.", "jsonrpc.", "lifecycle.")
    cases = [name for name in server_cases() if name.startswith(quick)]
    check(judged(Target(serve=serve), "asyncio", *cases), passes=120)


@pytest.mark.parametrize("edition", [None, Revision.CURRENT])
def test_a_server_whose_turns_wait_for_approvals_conforms(edition: Revision | None) -> None:
    cases = (
        "turns.a_turn_has_its_parts_in_order",
        "configuration.the_welcome_is_the_configured_one",
        "homes.two_servers_share_a_home",
        "jsonrpc.a_prompt_has_no_id",
        "tools.native_tools_have_the_names_that_people_configure",
        "usage.the_gauge_moves_with_each_request",
    )
    run = judged(Target(serve=serve_tools, edition=edition), "asyncio", *cases)
    check(run, passes=20)
    assert not [each.got for each in run.findings if each.got.startswith("expected the end of")]


@pytest.mark.long
@pytest.mark.parametrize(
    ("backend", "edition", "passes"),
    [
        ("asyncio", None, 200),
        ("trio", None, 200),
        ("trio", Revision.CURRENT, 200),
        ("asyncio", Revision.DRAFT, 30),
    ],
)
def test_it_conforms_inside_the_suite(backend: str, edition: Revision | None, passes: int) -> None:
    check(judged(Target(serve=serve, edition=edition), backend), passes=passes)


@pytest.mark.long(but=1)
@pytest.mark.parametrize("cases", ["ends.shutdown_and_exit", "ends."])
def test_it_conforms_as_a_process(cases: str) -> None:
    target = Target(command=(sys.executable, str(FILE)), env={"PYTHONPATH": str(REPOSITORY)})
    chosen = [name for name in server_cases() if name.startswith(cases)]
    check(judged(target, "trio", *chosen), passes=10)
