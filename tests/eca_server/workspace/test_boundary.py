from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eca_server.workspace import opening
from eca_server.workspace.boundary import Workspace, open_checked
from eca_server.workspace.errors import InvalidPath, PathChanged
from eca_server.workspace.opening import open_directory
from tests.eca_server.workspace.conftest import root_of, swapped_all_the_time


def test_an_absolute_path_in_the_root_is_inside(workspace, project):
    place = workspace.locate(str(project / "a" / "b"))
    assert place.is_inside
    assert place.path == place.real_path == project / "a" / "b"
    assert place.root is workspace.roots[0]


def test_the_root_itself_is_inside(workspace, project):
    assert workspace.locate(str(project)).is_inside
    assert workspace.locate(".").is_inside


def test_a_folder_whose_name_begins_like_the_root_is_outside(workspace, project):
    assert not workspace.locate(f"{project}-other/file").is_inside


def test_a_relative_path_starts_in_the_first_root(tmp_path):
    first, second = tmp_path / "first", tmp_path / "second"
    first.mkdir()
    second.mkdir()
    workspace = Workspace([root_of(first), root_of(second)])
    assert workspace.locate("a").path == first / "a"
    place = workspace.locate("../second/a")
    assert place.path == second / "a"
    assert place.root is workspace.roots[1]
    assert workspace.locate("b", base=second).path == second / "b"


def test_of_two_roots_in_each_other_the_inner_one_counts(tmp_path):
    inner = tmp_path / "outer" / "inner"
    inner.mkdir(parents=True)
    workspace = Workspace([root_of(tmp_path / "outer"), root_of(inner)])
    assert workspace.locate(str(inner / "a")).root is workspace.roots[1]
    assert workspace.locate("inner2").root is workspace.roots[0]


@pytest.fixture
def other_spelling(project, monkeypatch):
    """Return a second spelling of the root, as on a disk that ignores case."""
    spelling = project.with_name(project.name.upper())
    spelling.mkdir()
    monkeypatch.setattr(os.path, "samestat", lambda *_: True)
    return spelling


@pytest.mark.parametrize("name", [".git/hooks/pre-commit", ".eca/config.json", ".ECA/x"])
def test_guards_hold_for_each_spelling_of_the_root(workspace, project, other_spelling, name):
    place = workspace.locate(str(other_spelling / name))
    assert place.is_inside
    assert place.is_guarded
    assert place.path == place.real_path == project / name


def test_a_link_that_leads_out_of_any_spelling_of_the_root_escapes(
    workspace, outside, other_spelling
):
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


def test_a_tilde_is_the_home(workspace, outside, monkeypatch):
    monkeypatch.setenv("HOME", str(outside))
    assert workspace.locate("~").path == outside
    assert workspace.locate("~/secret").path == outside / "secret"
    assert not workspace.locate("~/secret").is_inside
    assert not workspace.locate("~root/x").is_inside
    assert workspace.locate("~nobody-has-this-name").is_inside


def test_dots_are_resolved_after_links(workspace, project, outside):
    (outside / "deep").mkdir()
    (project / "link").symlink_to(outside / "deep")
    place = workspace.locate("link/../secret")
    assert place.path == place.real_path == outside / "secret"
    assert not place.is_inside
    assert workspace.locate("link/../../project/a").is_inside


def test_dots_that_leave_the_root_are_outside(workspace):
    assert not workspace.locate("../outside").is_inside
    assert not workspace.locate("missing/../../outside").is_inside
    assert workspace.locate("../project/a").is_inside


def test_a_link_that_leads_out_is_outside(workspace, project, outside):
    (project / "link").symlink_to(outside)
    for text in ("link", "link/secret", "link/new/file"):
        place = workspace.locate(text)
        assert not place.is_inside
        assert place.escapes
        assert place.path == project / text
    assert not workspace.locate(str(outside)).escapes


def test_a_link_to_nothing_is_judged_by_where_it_leads(workspace, project, outside):
    (project / "out").symlink_to(outside / "missing")
    (project / "in").symlink_to(project / "missing")
    assert not workspace.locate("out").is_inside
    assert workspace.locate("in").real_path == project / "missing"


def test_a_root_that_is_a_link_is_its_target(tmp_path, project):
    (tmp_path / "alias").symlink_to(project)
    workspace = Workspace([root_of(tmp_path / "alias")])
    assert workspace.locate("a").path == tmp_path / "alias" / "a"
    assert workspace.locate("a").real_path == project / "a"
    assert workspace.locate(str(project / "a")).is_inside
    assert not workspace.locate("../alias-not").is_inside


def test_a_root_whose_link_is_turned_elsewhere_does_not_take_the_boundary_along(
    tmp_path, project, outside
):
    alias = tmp_path / "alias"
    alias.symlink_to(project)
    workspace = Workspace([root_of(alias)])
    alias.unlink()
    alias.symlink_to(outside)
    assert not workspace.locate("secret").is_inside


def test_two_slashes_at_the_front_mean_nothing(workspace, project):
    assert workspace.locate(f"/{project}/a").path == project / "a"
    assert workspace.locate(f"/{project}/a").is_inside


def test_without_roots_nothing_is_inside(project):
    workspace = Workspace([])
    assert not workspace.locate(str(project)).is_inside
    with pytest.raises(InvalidPath, match="no folder is open"):
        workspace.locate("a")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "empty"),
        ("  ", "empty"),
        ("a\0b", "NUL"),
        ("a/" * 4000, "at most 4096 bytes"),
        ("a" * 300, "too long for its file system"),
        ("\ud800", "cannot be one"),
    ],
)
def test_a_text_that_is_no_path_is_refused(workspace, text, words):
    with pytest.raises(InvalidPath, match=words) as caught:
        workspace.locate(text)
    assert isinstance(caught.value, ValueError)
    assert len(str(caught.value)) < 400


def test_links_in_a_circle_are_refused(workspace, project):
    (project / "a").symlink_to("b")
    (project / "b").symlink_to("a")
    (project / "c").symlink_to("c/d")
    for path in ("a/x", "none/../c/.."):
        with pytest.raises(InvalidPath, match="circle"):
            workspace.locate(path)
    (project / "d").symlink_to("none/../d/d")
    with pytest.raises(PathChanged, match="symbolic link"):
        workspace.locate("d/..")


def test_a_name_that_is_no_utf8_is_found(workspace, project):
    name = os.fsdecode(b"\xff")
    (project / name).write_text("x")
    assert workspace.locate(name).is_inside


def test_another_spelling_of_the_same_folder_is_inside(workspace, project, monkeypatch):
    other = project.with_name("PROJECT")
    assert not workspace.locate(str(other / "a")).is_inside
    real = Path.lstat
    monkeypatch.setattr(Path, "lstat", lambda self: real(project if self == other else self))
    assert workspace.locate(str(other / "a")).is_inside
    assert not workspace.locate(str(other.with_name("PROJECTS") / "a")).is_inside


def test_a_folder_that_differs_in_case_only_is_outside(workspace, project):
    other = project.with_name("Project")
    other.mkdir()
    assert not workspace.locate(str(other)).is_inside


names = st.sampled_from(["a", "b", "c", "..", "."])
paths = st.lists(names, min_size=1, max_size=5).map("/".join)
targets = st.builds(str.__add__, st.sampled_from(["", "@/base/", "@/"]), paths)
steps = st.lists(st.tuples(st.sampled_from(["folder", "link"]), paths, targets), max_size=12)


@given(steps=steps, requests=st.lists(targets, min_size=1, max_size=8))
def test_nothing_is_inside_whose_real_path_is_not(steps, requests):
    top = Path(tempfile.mkdtemp()).resolve()
    try:
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
    finally:
        shutil.rmtree(top)


def test_what_was_checked_is_opened(workspace, project):
    (project / "a").mkdir()
    (project / "a" / "file").write_text("x")
    (project / "link").symlink_to("a/file")
    descriptor = open_checked(workspace.locate("link"), os.O_RDONLY)
    assert os.read(descriptor, 10) == b"x"
    os.close(descriptor)


@pytest.mark.parametrize("swapped", ["a", "a/b", "a/b/file"])
def test_a_link_swapped_in_after_the_check_is_not_followed(workspace, project, outside, swapped):
    (project / "a" / "b").mkdir(parents=True)
    (project / "a" / "b" / "file").write_text("x")
    place = workspace.locate("a/b/file")
    shutil.move(project / swapped, project / "away")
    (project / swapped).symlink_to(outside / "secret" if swapped.endswith("file") else outside)
    words = rf"/{swapped}' changed after it was checked: it is a symbolic link to '.*; try again"
    with pytest.raises(PathChanged, match=words):
        open_checked(place, os.O_RDONLY)


def test_the_root_swapped_for_a_link_is_not_followed(workspace, project, outside):
    place = workspace.locate("secret")
    project.rmdir()
    project.symlink_to(outside)
    with pytest.raises(PathChanged):
        open_checked(place, os.O_RDONLY)


def test_a_platform_that_cannot_walk_looks_once_more(workspace, project, outside, monkeypatch):
    monkeypatch.setattr(opening, "_STEPS", False)
    (project / "a").mkdir()
    (project / "a" / "secret").write_text("x")
    place = workspace.locate("a/secret")
    os.close(open_checked(place, os.O_RDONLY))
    shutil.rmtree(project / "a")
    (project / "a").symlink_to(outside)
    with pytest.raises(PathChanged):
        open_checked(place, os.O_RDONLY)


def test_a_missing_file_is_named_as_the_user_knows_it(workspace, project):
    with pytest.raises(FileNotFoundError) as caught:
        open_checked(workspace.locate("a/b/c"), os.O_RDONLY)
    assert caught.value.filename == str(project / "a" / "b" / "c")


def test_a_file_in_the_place_of_a_folder_is_no_link(workspace, project):
    (project / "a").write_text("x")
    with pytest.raises(NotADirectoryError):
        open_checked(workspace.locate("a/b"), os.O_RDONLY)


def test_while_a_folder_is_swapped_for_a_link_nothing_outside_is_opened(
    workspace, project, outside
):
    (project / "a").mkdir()
    (project / "a" / "secret").write_text("harmless\n")
    read: set[bytes] = set()
    refused = 0
    with swapped_all_the_time(project / "a", outside):
        for _ in range(600):
            try:
                place = workspace.locate("a/secret")
                if not place.is_inside:
                    refused += 1
                    continue
                descriptor = open_checked(place, os.O_RDONLY)
            except (PathChanged, FileNotFoundError):
                refused += 1
                continue
            read.add(os.read(descriptor, 100))
            os.close(descriptor)
    assert read <= {b"harmless\n"}
    assert refused
