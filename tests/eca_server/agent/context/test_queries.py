import itertools
import os
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trio

from eca_protocol import messages as m
from eca_server.agent.context.queries import query_contexts
from eca_server.workspace.boundary import Place, Workspace
from eca_server.workspace.index import FileIndex
from tests.eca_server.agent.context.conftest import root_of


@asynccontextmanager
async def index_of(workspace: Workspace) -> AsyncIterator[FileIndex]:
    index = FileIndex(workspace.roots)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(index.run)
        yield index
        nursery.cancel_scope.cancel()


@pytest.fixture(autouse=True)
def _patient_searches(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a search wait for the whole listing, unless the test has a clock of its own."""
    if "autojump_clock" not in request.fixturenames:
        for name in ("_PATIENCE", "_MATCH_PATIENCE"):
            monkeypatch.setattr(f"eca_server.workspace.index.{name}", 30.0)


async def offered(workspace: Workspace, query: str = "", *contexts: m.ChatContext) -> list[str]:
    """Return the paths relative to the first root, directories with a final slash."""
    root = workspace.roots[0].path
    params = m.ChatQueryContextParams(query=query, contexts=contexts)
    async with index_of(workspace) as index:
        result = await query_contexts(params, index=index, workspace=workspace)
    assert all(isinstance(each, m.FileContext | m.DirectoryContext) for each in result.contexts)
    return [
        os.path.relpath(each.path, root) + "/" * isinstance(each, m.DirectoryContext)
        for each in result.contexts
    ]


@pytest.fixture
def files(project: Path) -> Path:
    (project / "src").mkdir()
    for name in ("readme.md", "src/main.py", "src/domain.py"):
        (project / name).write_text("x\n")
    return project


@pytest.mark.parametrize("healthy_calls", [0, 1])
async def test_a_disk_that_does_not_answer_has_no_matches(
    files, workspace, autojump_clock, monkeypatch, healthy_calls
) -> None:
    locate, calls, resume = Workspace.locate, itertools.count(), threading.Event()

    def hanging(self: Workspace, path: str) -> Place:
        if next(calls) >= healthy_calls:
            resume.wait()
        return locate(self, path)

    monkeypatch.setattr(Workspace, "locate", hanging)
    contexts = m.FileContext(path=str(files / "readme.md"))
    with trio.fail_after(6):
        assert await offered(workspace, "./", contexts) == []
    resume.set()


@pytest.mark.requirement("CHAT-24")
async def test_a_blank_query_gives_the_roots_then_the_rest(files, outside):
    workspace = Workspace([root_of(files), root_of(outside)])
    for blank in ("", "  "):
        assert await offered(workspace, blank) == [
            *["./", "../outside/", "src/", "../outside/secret", "readme.md"],
            *["src/main.py", "src/domain.py"],
        ]


async def test_no_answer_has_more_than_200(project, workspace):
    for number in range(260):
        (project / f"{number}").write_text("")
    paths = await offered(workspace)
    assert len(paths) == 200
    assert paths[0] == "./"
    contexts = [m.FileContext(path=str(project / f"{number}")) for number in range(9)]
    assert len(await offered(workspace, "", *contexts)) == 200


@pytest.mark.requirement("CHAT-25")
async def test_a_query_narrows_the_list_best_first(files, workspace):
    assert await offered(workspace, "main") == ["src/main.py", "src/domain.py"]
    assert await offered(workspace, "rdme") == ["readme.md"]
    assert await offered(workspace, "nothing like it") == []


@pytest.mark.requirement("CHAT-26")
async def test_what_the_client_has_is_left_out_however_it_is_spelled(files, workspace):
    (files / "link").symlink_to(files / "src")
    contexts = [
        m.FileContext(path=str(files / "link" / "main.py")),
        m.DirectoryContext(path=f"{files}/src/"),
        m.DirectoryContext(path=f"{files}/src/../"),
        m.FileContext(path="readme.md"),
        m.FileContext(path="a\0b"),
        m.RepoMapContext(),
    ]
    assert await offered(workspace, "", *contexts) == ["src/domain.py"]


async def test_a_path_lists_its_directory_without_names_that_could_not_be_written(files, workspace):
    assert await offered(workspace, "./src/") == ["src/domain.py", "src/main.py"]
    assert await offered(workspace, f"{files}/src/ma") == ["src/main.py"]
    Path(os.fsdecode(os.fsencode(files) + b"/main\xff")).write_text("")
    some = m.FileContext(
        path=str(files / "src" / "main.py"), lines_range=m.LinesRange(start=1, end=2)
    )
    assert await offered(workspace, "main", some) == ["src/main.py", "src/domain.py"]
