"""Calls of one answer that rest on each other, and any changes of files undone."""

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import attrs
import pytest
import trio
from hypothesis import given, settings
from hypothesis import strategies as st

from eca_protocol.server.roots import Root
from eca_protocol.testing.provider import reply
from eca_server.agent.chat import undo
from eca_server.agent.chat.store.place import store_path
from eca_server.agent.chat.store.rows import FOLDER, BeforeImage, Change, StoredContent
from eca_server.agent.chat.store.store import Store
from eca_server.agent.chat.undo import Plan, SkippedFile, apply_step, plan, skipped_lines
from eca_server.agent.tools.move_file import MoveFile
from eca_server.agent.tools.tool import ToolOutput
from eca_server.agent.tools.write_file import PlannedWrite, WriteFile
from eca_server.workspace.boundary import Workspace
from eca_server.workspace.reading import Fingerprint
from eca_server.workspace.writing import missing_parents
from tests.eca_server.agent.chat.agent_session import ALLOW, calls, of_calls, older, order, results
from tests.eca_server.agent.chat.store.keeping import before_images
from tests.eca_server.agent.chat.test_rollback import tree

NAMES = st.sampled_from(["a", "b", "d/a", "d/b", "e/a"])
MOVED = st.sampled_from([("d", "e/d"), ("e", "d/e"), ("a", "b"), ("b", "d/a"), ("d/a", "a")])

OF_MODEL = st.one_of(
    st.tuples(st.just("write"), NAMES),
    st.tuples(st.just("move"), MOVED),
    st.tuples(st.just("fail"), NAMES),
)
OF_USER = st.one_of(st.tuples(st.just("edit"), NAMES), st.tuples(st.just("remove"), NAMES))


@attrs.define
class Disk:
    """A folder that a model and a user change; what is noted of the model's changes."""

    folder: Path
    changes: list[Change] = attrs.field(factory=list)
    contents: dict[int, StoredContent] = attrs.field(factory=dict)
    count: int = 0

    @property
    def workspace(self) -> Workspace:
        root = Root(name="w", uri="", path=self.folder, real_path=self.folder)
        return Workspace([root])

    def do(self, what: str, name: Any) -> None:
        self.count += 1
        match what:
            case "write" | "fail" if self.may_write(name):
                self.write(self.folder / name, f"model {self.count}", fails=what == "fail")
            case "move":
                self.move(*name)
            case "edit" if self.may_write(name):
                self.put(self.folder / name, f"user {self.count}")
            case "remove" if (self.folder / name).is_file():
                (self.folder / name).unlink()

    def may_write(self, name: str) -> bool:
        path = self.folder / name
        above = [each for each in path.parents if each.is_relative_to(self.folder)]
        return not path.is_dir() and not any(each.is_file() for each in above)

    def put(self, path: Path, text: str) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def write(self, path: Path, text: str, *, fails: bool) -> None:
        before = path.read_bytes() if path.exists() else None
        after = Fingerprint.of(text.encode()).digest
        digest = None if before is None else Fingerprint.of(before).digest
        self.note_directories(path)
        self.note(path=str(path), existed=before is not None, before=digest, after=after)
        if before is not None:
            self.contents[self.count] = StoredContent(mode=0o644, data=before)
        if not fails:
            self.put(path, text)

    def move(self, old: str, new: str) -> None:
        source, destination = self.folder / old, self.folder / new
        if not source.exists() or destination.exists() or not self.may_write(new):
            return
        content = Fingerprint.of(source.read_bytes()).digest if source.is_file() else None
        self.note_directories(destination)
        self.note(path=str(destination), moved_from=str(source), existed=False, after=content)
        destination.parent.mkdir(parents=True, exist_ok=True)
        source.rename(destination)

    def note_directories(self, path: Path) -> None:
        for each in missing_parents(path):
            self.note(path=str(each), existed=False, after=FOLDER)

    def note(self, **change: Any) -> None:
        self.changes.append(Change(number=self.count, **change))

    def plan(self) -> Plan:
        return plan(self.changes, undo.Disk(self.workspace))

    def apply(self, steps: Any) -> None:
        for step in steps:
            content = None if step.change is None else self.contents[step.change]
            apply_step(step, content, self.workspace, "c")

    def tree(self) -> dict[str, str]:
        return tree(self.folder)

    def directories(self) -> set[Path]:
        return {each for each in self.folder.rglob("*") if each.is_dir()}


@pytest.fixture(scope="module")
def top() -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as folder:
        yield Path(folder).resolve()


def disk(top: Path, present: set[str]) -> Disk:
    ours = Disk(Path(tempfile.mkdtemp(dir=top)))
    for name in present:
        ours.put(ours.folder / name, f"first {name}")
    return ours


@settings(max_examples=20)
@given(present=st.sets(NAMES), done=st.lists(OF_MODEL, max_size=8), killed=st.integers(0, 8))
def test_what_only_the_model_changed_is_as_it_was(top, present, done, killed):
    ours = disk(top, present)
    before, directories = ours.tree(), ours.directories()
    for each in done:
        ours.do(*each)
    planned = ours.plan()
    assert planned.skipped == ()
    ours.apply(planned.steps[:killed])
    ours.apply(planned.steps[max(0, killed - 1) :])  # what was done last was not struck out yet
    assert ours.tree() == before
    assert ours.directories() == directories


@settings(max_examples=20)
@given(present=st.sets(NAMES), done=st.lists(OF_MODEL | OF_USER, max_size=10))
def test_what_the_user_wrote_meanwhile_stays(top, present, done):
    ours = disk(top, present)
    for each in done:
        ours.do(*each)
    of_user = {text for text in ours.tree().values() if text.startswith("user")}
    planned = ours.plan()
    ours.apply(planned.steps)
    assert of_user <= set(ours.tree().values())
    skipped_paths = {each.path for each in planned.skipped}
    for path, text in ours.tree().items():
        assert not text.startswith("model") or skipped_paths, (
            f"{path} was not undone, and nobody is told"
        )


def test_a_file_with_an_odd_name_is_named_in_text_on_one_line():
    assert skipped_lines([SkippedFile("/p/\udce9\n", "why")]).encode() == b"- /p/\\xe9\\n: why"


def test_of_very_many_files_the_first_are_named():
    skipped = [SkippedFile(f"/p/{number}", "why") for number in range(5000)]
    lines = skipped_lines(skipped).splitlines()
    assert lines[-2:] == ["- /p/99: why", "- and 4900 more"]


Call = tuple[str, dict[str, str]]


def write(path: str, content: str) -> Call:
    return "eca_write_file", {"path": path, "content": content}


def edit(path: str, original: str, new: str) -> Call:
    return "eca_edit_file", {"path": path, "original_content": original, "new_content": new}


def move(source: str, destination: str) -> Call:
    return "eca_move_file", {"source": source, "destination": destination}


def shell(command: str) -> Call:
    return "eca_shell_command", {"command": command}


@pytest.mark.requirement("TOOL-14")
async def test_a_call_is_asked_for_when_what_it_rests_on_was_done(tmp_path):
    (tmp_path / "other").write_text("one")
    made = calls(write("a", "one\n"), edit("a", "one", "two"), edit("other", "one", "1"))
    async with older(made, folder=tmp_path) as (ours, provider):
        await ours.prompt("go")
        first = await ours.content("toolCallRun")
        third = await ours.content("toolCallRun")
        assert third["arguments"]["path"] == "other"
        assert [each["type"] for each in of_calls(ours)].count("toolCallRun") == 2
        await ours.approve(third)
        await ours.approve(first)
        second = await ours.content("toolCallRun")
        assert second["details"]["diff"] == "@@ -1 +1 @@\n-one\n+two"
        assert (tmp_path / "other").read_text() == "one"
        await ours.approve(second)
        await ours.expect_finished()
        for call in (first, second, third):
            sent = [each for each in of_calls(ours) if each["id"] == call["id"]]
            assert order(sent) == ["Prepare", "Run", "Running", "ed"]
        assert (tmp_path / "a").read_text() == "two\n"
        assert (tmp_path / "other").read_text() == "1"
        assert [text.split()[0] for text in results(provider)] == ["Created", "Edited", "Edited"]


@pytest.mark.requirement("W-35a", "TOOL-13")
@pytest.mark.parametrize(
    ("made", "expected"),
    [
        ([edit("f", "one", "1"), edit("f", "two", "2"), edit("f", "1", "I")], {"f": "I\n2\n"}),
        ([edit("f", "one", "1"), write("f", "new\n")], {"f": "new\n"}),
        ([write("f", "new\n"), write("f", "newer\n"), move("f", "g")], {"g": "newer\n"}),
        ([move("f", "g"), write("f", "new\n"), edit("g", "one", "1")],
            {"f": "new\n", "g": "1\ntwo\n"}),
        ([move("f", "a/f"), move("a", "b"), edit("b/f", "two", "2")], {"b/f": "one\n2\n"}),
        ([edit("f", "one", "1"), move("f", "g"), move("g", "f")], {"f": "1\ntwo\n"}),
        ([shell("echo new > g; mkdir d"), edit("g", "new", "newer"),
            ("eca_shell_command", {"command": "mv ../f .", "working_directory": "d"})],
            {"d/f": "one\ntwo\n", "g": "newer\n"}),
        ([move("f", "g"), move("g", "h"), write("h", "new\n")], {"h": "new\n"}),
        ([edit("gone", "a", "b"), write("f", "new\n")], {"f": "new\n"}),
    ],
)  # fmt: skip
async def test_calls_of_one_answer_change_what_the_ones_before_them_left(tmp_path, made, expected):
    (tmp_path / "f").write_text("one\ntwo\n")
    async with older(calls(*made), folder=tmp_path, **ALLOW) as (ours, _):
        await ours.turn("go")
        errors = [each["error"] for each in of_calls(ours) if each["type"] == "toolCalled"]
        assert errors == [call[1].get("path") == "gone" for call in made]
    assert tree(tmp_path) == expected


@pytest.mark.parametrize("name", ["d/f", "d"])
@pytest.mark.parametrize("lines", [{}, {"linesRange": {"start": 1, "end": 1}}])
async def test_a_file_is_known_as_it_was_in_the_last_context(tmp_path, name, lines):
    (tmp_path / "d").mkdir()
    file = tmp_path / "d/f"
    file.write_text("one\ntwo\n")
    contexts = [{"type": "file", "path": str(tmp_path / name), **lines}]
    script = [
        reply("seen"),
        calls(write("d/f", "new\n")),
        reply("no"),
        calls(edit("d/f", "3", "4")),
    ]
    async with older(*script, folder=tmp_path, **ALLOW) as (ours, provider):
        await ours.turn("look", contexts=contexts)
        file.write_text("one\n3\n")
        await ours.turn("/prompt-show", contexts=contexts)
        await ours.turn("overwrite it")
        assert "has changed since you read it" in results(provider)[-1]
        await ours.turn("look again", contexts=contexts)
    assert file.read_text() == "one\n4\n"


@pytest.mark.parametrize("path", ["a", ""])
async def test_a_stop_while_a_call_is_looked_at_closes_it_once(tmp_path, monkeypatch, caplog, path):
    (tmp_path / "a").write_text("one")
    async with older(calls(move(path, "b")), folder=tmp_path) as (ours, _):
        look = MoveFile._look

        def stop_meanwhile(tool: MoveFile, *paths: str) -> Any:
            trio.from_thread.run_sync(ours.connection.chats.open("c").stop)
            return look(tool, *paths)

        monkeypatch.setattr(MoveFile, "_look", stop_meanwhile)
        await ours.turn("go")
        assert order(of_calls(ours)) == ["Prepare", "Rejected"]
    assert not caplog.records


async def kept_images(data: Path) -> list[BeforeImage]:
    store = Store(store_path({"XDG_DATA_HOME": str(data)}), on_problem=pytest.fail)
    images = await before_images(store, "c")
    await store.close()
    return [*images]


async def test_a_file_is_saved_before_it_is_changed(tmp_path, folder, monkeypatch):
    data = tmp_path / "data"
    (folder / "f").write_text("before")
    images = []

    def look_what_is_kept(*_: object) -> ToolOutput:
        images.extend(trio.from_thread.run(kept_images, data))
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(PlannedWrite, "_write", look_what_is_kept)
    async with older(calls(write("f", "x")), folder=folder, data=data, **ALLOW) as (ours, _):
        await ours.turn("go")
    assert [image.data for image in images] == [b"before"]


async def test_a_call_of_a_deleted_chat_stores_and_changes_nothing(tmp_path, folder, monkeypatch):
    data = tmp_path / "data"
    (folder / "f").write_text("a secret")
    async with older(calls(write("f", "x")), folder=folder, data=data, **ALLOW) as (ours, _):
        look = WriteFile._plan

        def delete_meanwhile(tool: WriteFile, *arguments: Any) -> Any:
            trio.from_thread.run_sync(ours.connection.chats.delete, "c")
            return look(tool, *arguments)

        monkeypatch.setattr(WriteFile, "_plan", delete_meanwhile)
        await ours.prompt("go")
        turn = ours.connection.chats.open("c").turn
        await turn.ended.wait()
    assert await kept_images(data) == []
    assert tree(folder) == {"f": "a secret"}
    files = [Path(name, each) for name, _, names in os.walk(data) for each in names]
    assert not any(b"secret" in each.read_bytes() for each in files)
