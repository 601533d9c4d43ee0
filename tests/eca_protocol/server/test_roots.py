import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eca_protocol.messages.lifecycle import WorkspaceFolder
from eca_protocol.server.roots import Root, parse_roots, path_of, uri_of

pytestmark = pytest.mark.requirement("W-15")


def folder(uri: str, name: str = "") -> WorkspaceFolder:
    return WorkspaceFolder(uri=uri, name=name)


@pytest.mark.requirement("W-15a")
@pytest.mark.parametrize(
    ("uri", "path"),
    [
        ("file:///home/me/my%20project", "/home/me/my project"),
        ("file:///home/me/my project", "/home/me/my project"),
        ("FILE:///home", "/home"),
        ("file:/home", "/home"),
        ("file://localhost/home", "/home"),
        ("file://LOCALHOST/home/", "/home"),
        ("file:////home", "/home"),
        ("file:///", "/"),
        ("file:///a/./b/../c", "/a/c"),
        ("file:///../a", "/a"),
        ("file:///a%2Fb", "/a/b"),
        ("file:///c%23/what%3F", "/c#/what?"),
        ("file:///c#/what?", "/c#/what?"),
        ("file:///100%", "/100%"),
        ("file:///%C3%BC/%E2%82%AC", "/ü/€"),
        ("file:///ü", "/ü"),
        ("file:///%ff", "/\udcff"),
        ("file:///c%3A/x", "/c:/x"),
    ],
)
def test_a_file_uri_names_a_path(uri: str, path: str) -> None:
    assert path_of(uri, windows=False) == path


@pytest.mark.parametrize(
    ("uri", "path"),
    [
        ("file:///c:/Users/me", r"C:\Users\me"),
        ("file:///C%3A/Users/my%20project/", r"C:\Users\my project"),
        ("file:///c|/x", r"C:\x"),
        ("file:c:/x", r"C:\x"),
        ("file://localhost/d:/x/../y", r"D:\y"),
        ("file:///c:", "C:\\"),
        ("file://server/share/x", r"\\server\share\x"),
        ("file:////server/share/x", r"\\server\share\x"),
        ("file://wsl%24/Ubuntu/home/me", r"\\wsl$\Ubuntu\home\me"),
        ("file://c:/Users/me", r"C:\Users\me"),
        (r"file://C:\Users\me", r"C:\Users\me"),
        (r"file://\\wsl$\Ubuntu\home", r"\\wsl$\Ubuntu\home"),
    ],
)
def test_a_file_uri_names_a_path_with_a_drive_or_host_on_windows(uri: str, path: str) -> None:
    assert path_of(uri, windows=True) == path


NO_FILES = """
    /home/me C:\\Users http://host/x vscode-remote://wsl/home untitled:x file: file:// file:relative
    file://localhost filex:///home
"""


@pytest.mark.parametrize("windows", [False, True])
@pytest.mark.parametrize("uri", ["", *NO_FILES.split()])
def test_what_is_no_local_file_uri_is_refused(uri: str, windows: bool) -> None:
    with pytest.raises(ValueError, match=r"expected .*, got "):
        path_of(uri, windows=windows)
    with pytest.raises(ValueError, match="example"):
        path_of("file://example.org/home", windows=False)


@given(st.lists(st.binary(min_size=1, max_size=12), max_size=5))
def test_any_path_survives_the_way_to_its_uri_and_back(names: list[bytes]) -> None:
    path = os.fsdecode(os.path.normpath(b"/" + b"/".join(names)))
    path = "/" + path.lstrip("/")
    uri = uri_of(path)
    assert uri.isascii()
    assert uri.startswith("file:///")
    assert path_of(uri, windows=False) == path


@given(st.text(), st.booleans())
def test_no_text_makes_it_raise_anything_else(text: str, windows: bool) -> None:
    for uri in (text, f"file:{text}", f"file:///{text}"):
        try:
            path = path_of(uri, windows=windows)
        except ValueError:
            continue
        assert path


def test_roots_keep_their_order_and_come_once_where_the_user_opened_them(tmp_path: Path) -> None:
    assert parse_roots([]) == ((), ())
    one, two, link = tmp_path / "b one", tmp_path / "a", tmp_path / "link"
    one.mkdir()
    two.mkdir()
    link.symlink_to(one)
    uris = [uri_of(one), uri_of(two), uri_of(one) + "/", uri_of(two) + "/x/..", uri_of(link)]
    roots, problems = parse_roots([folder(uris[0], "First"), *map(folder, uris[1:])])
    assert problems == ()
    assert roots == (
        Root(name="First", uri=uris[0], path=one, real_path=one.resolve()),
        Root(name="a", uri=uris[1], path=two, real_path=two.resolve()),
        Root(name="link", uri=uris[4], path=link, real_path=one.resolve()),
    )


@pytest.mark.requirement("W-15b")
def test_a_folder_that_cannot_be_used_gives_a_sentence_and_no_root(tmp_path: Path) -> None:
    good = tmp_path / "good"
    good.mkdir()
    (tmp_path / "file").write_text("")
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    (tmp_path / "dangling").symlink_to(tmp_path / "nowhere")
    names = ("nowhere", "file", "loop", "dangling")
    files = [uri_of(tmp_path / name) for name in names]
    bad = [*files, "file:///%00", "http://host/x", "", "x:" + "y" * 10_000]
    roots, problems = parse_roots([folder(bad[0]), folder(uri_of(good)), *map(folder, bad[1:])])
    assert [root.path for root in roots] == [good]
    assert len(problems) == len(bad)
    for uri, problem in zip(bad, problems, strict=True):
        assert uri[:50] in problem
        assert len(problem) < 500
