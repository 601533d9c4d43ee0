"""Any changes of files are undone, and later changes by others stay."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import attrs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eca_protocol.server.roots import Root
from eca_server.agent.chat import undo
from eca_server.agent.chat.store.rows import Change, StoredContent
from eca_server.agent.chat.undo import Plan, SkippedFile, apply_step, plan, skipped_lines
from eca_server.workspace.boundary import Workspace
from eca_server.workspace.reading import Fingerprint

NAMES = st.sampled_from(["a", "b", "d/a", "d/b", "e/a"])
FOLDERS = st.sampled_from([("d", "e/d"), ("e", "d/e"), ("a", "b"), ("b", "d/a"), ("d/a", "a")])

OF_MODEL = st.one_of(
    st.tuples(st.just("write"), NAMES),
    st.tuples(st.just("move"), FOLDERS),
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
        self.note(
            path=str(path),
            existed=before is not None,
            before=None if before is None else Fingerprint.of(before).digest,
            after=after,
        )
        if before is not None:
            self.contents[self.count] = StoredContent(mode=0o644, data=before)
        if not fails:
            self.put(path, text)

    def move(self, old: str, new: str) -> None:
        source, destination = self.folder / old, self.folder / new
        if not source.exists() or destination.exists() or not self.may_write(new):
            return
        self.note(path=str(destination), moved_from=str(source), existed=False)
        destination.parent.mkdir(parents=True, exist_ok=True)
        source.rename(destination)

    def note(self, **change: Any) -> None:
        self.changes.append(Change(number=self.count, **change))

    def plan(self) -> Plan:
        return plan(self.changes, undo.Disk(self.workspace))

    def apply(self, steps: Any) -> None:
        for step in steps:
            content = None if step.change is None else self.contents[step.change]
            apply_step(step, content, self.workspace, "c")

    def tree(self) -> dict[str, str]:
        return {
            str(path.relative_to(self.folder)): path.read_text()
            for path in self.folder.rglob("*")
            if path.is_file()
        }


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
    before = ours.tree()
    for each in done:
        ours.do(*each)
    planned = ours.plan()
    assert planned.skipped == ()
    ours.apply(planned.steps[:killed])
    ours.apply(planned.steps[max(0, killed - 1) :])  # what was done last was not struck out yet
    assert ours.tree() == before


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
    left = {each.path for each in planned.skipped}
    for path, text in ours.tree().items():
        assert not text.startswith("model") or left, f"{path} was not undone, and nobody is told"


def test_a_file_with_an_odd_name_is_named_in_text_on_one_line():
    assert skipped_lines([SkippedFile("/p/\udce9\n", "why")]).encode() == b"- /p/\\xe9\\n: why"


def test_of_very_many_files_the_first_are_named():
    lines = skipped_lines(
        [SkippedFile(f"/p/{number}", "why") for number in range(5000)]
    ).splitlines()
    assert lines[-2:] == ["- /p/99: why", "- and 4900 more"]
