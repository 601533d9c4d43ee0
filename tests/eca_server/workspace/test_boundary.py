"""The boundary of the workspace, and directories opened step by step below an open one."""

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eca_server.printable import printable_path
from eca_server.workspace import opening
from eca_server.workspace.boundary import Workspace
from eca_server.workspace.errors import InvalidPath, PathChanged
from eca_server.workspace.opening import Descent, Directory, folded, open_directory
from tests.eca_server.workspace.conftest import root_of


def test_a_path_is_inside_if_it_leads_into_a_root(workspace, project, outside, monkeypatch):
    monkeypatch.setenv("HOME", str(outside))
    (outside / "deep").mkdir()
    for name, target in {"link": outside, "deep": outside / "deep", "in": "missing"}.items():
        (project / name).symlink_to(target)
    (project / "out").symlink_to(outside / "missing")
    for text, path in [
        (str(project / "a" / "b"), project / "a" / "b"),
        (str(project), project),
        (".", project),
        ("../project/a", project / "a"),
        ("deep/../../project/a", project / "a"),
        ("in", project / "missing"),
        (f"/{project}/a", project / "a"),  # two slashes at the front mean nothing
        (os.fsdecode(b"\xff"), project / os.fsdecode(b"\xff")),
        ("~nobody-has-this-name", project / "~nobody-has-this-name"),
    ]:
        place = workspace.locate(text)
        assert place.is_inside
        assert place.real_path == path
        assert place.root is workspace.roots[0]
    for text, path in [
        (f"{project}-other/file", Path(f"{project}-other/file")),
        ("../outside", outside),
        ("missing/../../outside", outside),
        ("link", outside),
        ("link/secret", outside / "secret"),
        ("link/new/file", outside / "new" / "file"),
        ("deep/../secret", outside / "secret"),  # dots are resolved after links
        ("out", outside / "missing"),
        ("~", outside),
        ("~/secret", outside / "secret"),
        (str(outside), outside),
        ("~root/x", Path("~root").expanduser() / "x"),
    ]:
        place = workspace.locate(text)
        assert not place.is_inside
        assert place.real_path == path
        assert place.escapes == text.startswith(("link", "out", "deep")), text
    assert workspace.locate("link/secret").path == project / "link" / "secret"
    assert workspace.locate("deep/../secret").path == outside / "secret"


def test_of_several_roots_the_first_is_where_paths_start_and_the_inner_one_counts(project, outside):
    workspace = Workspace([root_of(project), root_of(outside)])
    assert workspace.locate("a").path == project / "a"
    place = workspace.locate("../outside/a")
    assert place.path == outside / "a"
    assert place.root is workspace.roots[1]
    assert workspace.locate("b", base=outside).path == outside / "b"
    inner = project / "inner"
    inner.mkdir()
    workspace = Workspace([root_of(project), root_of(inner)])  # the inner one counts
    assert workspace.locate(str(inner / "a")).root is workspace.roots[1]
    assert workspace.locate("inner2").root is workspace.roots[0]
    assert not Workspace([]).locate(str(project)).is_inside
    with pytest.raises(InvalidPath, match="no folder is open"):
        Workspace([]).locate("a")


@pytest.fixture
def other_spelling(project, monkeypatch):
    """Return a second spelling of the root, as on a disk that ignores case."""
    spelling = project.with_name(project.name.upper())
    spelling.mkdir()
    monkeypatch.setattr(os.path, "samestat", lambda *_: True)
    return spelling


def test_guards_hold_for_each_spelling_of_the_root(workspace, project, outside, other_spelling):
    for name in (".git/hooks/pre-commit", ".eca/config.json", ".ECA/x"):
        place = workspace.locate(str(other_spelling / name))
        assert place.is_inside
        assert place.is_guarded
        assert place.path == place.real_path == project / name
    (other_spelling / "link").symlink_to(outside)
    place = workspace.locate(str(other_spelling / "link" / "secret"))
    assert place.escapes
    assert place.real_path == outside / "secret"


def test_an_inner_root_has_its_own_spelling(project, other_spelling):
    (project / "inner").mkdir()
    (project / "INNER").mkdir()
    workspace = Workspace([root_of(project), root_of(project / "inner")])
    for path in (project / "INNER" / "a", other_spelling / "INNER" / "a"):
        place = workspace.locate(str(path))
        assert place.root is workspace.roots[1]
        assert place.path == project / "inner" / "a"


def test_a_private_folder_is_outside_though_it_lies_in_a_root(project, outside):
    (project / "link").symlink_to(outside)
    workspace = Workspace([root_of(project)], private=[project / "data", project / "link"])
    assert not workspace.locate("data/logins.json").is_inside
    assert not workspace.locate("x/../data").is_inside
    assert workspace.locate("data-of-ours").is_inside
    assert not workspace.locate(str(outside / "a")).is_inside


def test_a_root_that_is_a_link_is_the_target_that_it_had(tmp_path, project, outside):
    alias = tmp_path / "alias"
    alias.symlink_to(project)
    workspace = Workspace([root_of(alias)])
    assert workspace.locate("a").path == alias / "a"
    assert workspace.locate("a").real_path == project / "a"
    assert workspace.locate(str(project / "a")).is_inside
    assert not workspace.locate("../alias-not").is_inside
    alias.unlink()
    alias.symlink_to(outside)
    assert not workspace.locate("secret").is_inside


@pytest.mark.parametrize(
    ("text", "error", "words"),
    [
        ("", InvalidPath, "empty"),
        ("  ", InvalidPath, "empty"),
        ("a\0b", InvalidPath, "NUL"),
        ("a/" * 4000, InvalidPath, "at most 4096 bytes"),
        ("a" * 300, InvalidPath, "too long for its file system"),
        ("\ud800", InvalidPath, "cannot be one"),
        ("a/x", InvalidPath, "circle"),
        ("none/../c/..", InvalidPath, "circle"),
        ("d/..", PathChanged, "symbolic link"),
    ],
    ids=range(9),
)
def test_a_text_that_is_no_path_is_refused(workspace, project, text, error, words):
    for name, target in {"a": "b", "b": "a", "c": "c/d", "d": "none/../d/d"}.items():
        (project / name).symlink_to(target)
    with pytest.raises(error, match=words) as caught:
        workspace.locate(text)
    assert isinstance(caught.value, ValueError) is (error is InvalidPath)
    assert len(str(caught.value)) < 400


def test_another_spelling_of_the_same_folder_alone_is_inside(workspace, project, monkeypatch):
    other, different = project.with_name("PROJECT"), project.with_name("Project")
    different.mkdir()
    assert not workspace.locate(str(other / "a")).is_inside
    real = Path.lstat
    monkeypatch.setattr(Path, "lstat", lambda self: real(project if self == other else self))
    assert workspace.locate(str(other / "a")).is_inside
    assert not workspace.locate(str(other.with_name("PROJECTS") / "a")).is_inside
    assert not workspace.locate(str(different)).is_inside


def test_composed_characters_are_those_of_existing_files(workspace, project):
    composed, decomposed = "\xe9", "e\u0301"
    (project / decomposed).mkdir()
    for name in (decomposed, f"{composed}2", "both\xe9", "bothe\u0301"):
        (project / decomposed / name).touch()
    for text, path in [
        (f"{composed}/{composed}", f"{decomposed}/{decomposed}"),
        (f"{project}/{composed}/new/", f"{decomposed}/new"),
        (f"{composed}/../{composed}/{decomposed}2", f"{decomposed}/{composed}2"),
        (f"{composed}/both\xe9", f"{decomposed}/both\xe9"),
        (f"{decomposed}/bothe\u0301", f"{decomposed}/bothe\u0301"),
        (f"{composed}3", f"{composed}3"),
    ]:
        assert workspace.locate(text).real_path == project / path, text


def test_a_disk_that_ignores_case_gives_a_file_one_real_path(workspace, project, monkeypatch):
    (project / "Src").mkdir()
    for name in ("Src/Main.py", "Src/E\u0301te\u0301", "Src/12"):
        (project / name).touch()

    def exists(path: str) -> bool:
        try:
            names = [each.name for each in Path(path).parent.iterdir()]
        except OSError:
            return False
        return folded(Path(path).name) in map(folded, names)

    monkeypatch.setattr(os.path, "lexists", exists)
    for text, path in {
        "sRC/MAIN.py": "Src/Main.py",
        "Src/Main.py": "Src/Main.py",
        "src/\xc9T\xc9": "Src/E\u0301te\u0301",
        "SRC/12": "Src/12",
        "SRC/new/A.py": "Src/new/A.py",
    }.items():
        place = workspace.locate(text)
        assert place.real_path == place.path == project / path
    monkeypatch.undo()
    (project / "src").mkdir()
    assert workspace.locate("src/a").real_path == project / "src/a"


@pytest.mark.skipif(os.name == "nt", reason="a backslash is no part of a name there")
def test_a_name_that_is_shown_with_escapes_is_found_as_it_is_shown(workspace, project):
    (project / "dir\udce9").mkdir()
    (project / "both\udce9").touch()
    for name in ("\udcff\udcfe.txt", "new\nline\t", "esc\x1b[0m", "e\u200b", "both\\xe9"):
        (project / "dir\udce9" / name).touch()
        (project / name).touch()
        shown = printable_path(f"dir\udce9/{name}")
        assert "\\xe9/" in shown
        assert workspace.locate(shown).real_path == project / "dir\udce9" / name
        assert workspace.locate(f"{project}/{printable_path(name)}").real_path == project / name
    for text in ("new\\xe9", "dir\\x65", "dir\\x2f", "a\\x00", "\\ud800", "\\U00110000"):
        assert workspace.locate(text).real_path == project / text


names = st.sampled_from(["a", "b", "c", "..", "."])
paths = st.lists(names, min_size=1, max_size=5).map("/".join)
targets = st.builds(str.__add__, st.sampled_from(["", "@/base/", "@/"]), paths)
steps = st.lists(st.tuples(st.sampled_from(["folder", "link"]), paths, targets), max_size=12)


@given(steps=steps, requests=st.lists(targets, min_size=1, max_size=8))
def test_nothing_is_inside_whose_real_path_is_not(steps, requests):
    with tempfile.TemporaryDirectory() as name:
        top = Path(name).resolve()
        root = top / "base"
        root.mkdir()
        for kind, path, target in steps:
            try:
                if kind == "folder":
                    (root / path).mkdir()
                else:
                    (root / path).symlink_to(target.replace("@", str(top)))
            except OSError:
                continue
        workspace = Workspace([root_of(root)])
        for text in requests:
            try:
                place = workspace.locate(text.replace("@", str(top)))
            except (InvalidPath, PathChanged):
                continue
            assert ".." not in place.path.parts
            assert Path(os.path.realpath(place.path)) == place.real_path
            assert place.is_inside == (place.real_path == root or root in place.real_path.parents)
            if place.is_inside and place.path.exists():
                with open_directory(place.real_path) as directory:
                    assert os.path.samestat(os.fstat(directory.fd or 0), place.path.stat())


@pytest.fixture(params=[True, False], ids=["descriptors", "paths"])
def start(
    request: pytest.FixtureRequest, project: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Directory]:
    """Open the project, on a platform with descriptors of directories and on one without."""
    monkeypatch.setattr(opening, "_STEPS", request.param)
    for name in ("a/b/c", "a/d", "e"):
        (project / name).mkdir(parents=True)
        (project / name / "f").write_text(name)
    with open_directory(project) as opened:
        yield opened


def names_in(directory: Directory) -> list[str]:
    with directory.scan() as entries:
        return sorted(entry.name for entry in entries)


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))  # noqa: PTH208 (one call)


def test_each_directory_is_reached_from_whichever_was_open_before(start):
    before = descriptors()
    with Descent(start) as descent:
        for path, held in (("a/b/c", ["f"]), ("a", ["b", "d"]), ("a/d", ["f"]), ("e", ["f"])):
            opened = descent.open(path)
            assert opened.path == start.path / path
            assert names_in(opened) == held
        assert names_in(descent.open("")) == ["a", "e"]
        descent.open("a/b/c")
    assert descriptors() == before


def test_neighbours_share_their_parents(start):
    real = Directory.open_subdirectory
    with (
        patch.object(Directory, real.__name__, autospec=True, side_effect=real) as opening_one,
        Descent(start) as descent,
    ):
        for path in ("a/b", "a/b/c", "a/b/c", "a/d"):
            descent.open(path)
    assert [call.args[1] for call in opening_one.call_args_list] == ["a", "b", "c", "d"]


@pytest.mark.parametrize("path", ["..", "../outside", "a/../../outside", ".", "a/.", "/", "a//b"])
def test_only_a_path_straight_down_to_a_directory_is_followed(start, outside, path):
    before = descriptors()
    with Descent(start) as descent:
        with pytest.raises(InvalidPath, match="a relative path without"):
            descent.open(path)
        for missing in ("e/f", "e/missing", "e/f/g"):
            with pytest.raises((NotADirectoryError, FileNotFoundError)):
                descent.open(missing)
    assert descriptors() == before


@pytest.mark.parametrize("swapped", ["a", "a/b", "a/b/c"])
def test_a_link_is_not_followed_at_any_step(start, project, outside, swapped):
    (project / swapped).rename(project / "away")
    (project / swapped).symlink_to(outside)
    before = descriptors()
    with Descent(start) as descent:
        with pytest.raises(PathChanged, match=f"{swapped}' changed after it was checked"):
            descent.open("a/b/c")
        assert names_in(descent.open("e")) == ["f"]
    assert descriptors() == before
