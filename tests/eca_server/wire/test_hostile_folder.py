"""Started in a folder full of modules that are named like ours, the server imports none of them.

Design decision 16. Kept out is everything but what the interpreter imports by itself for `-m`
before the first line of ours: exactly the modules that `import runpy` has loaded, and the package
that `-m` names. With `-P` or the console script not even these come from the folder; if it is in
PYTHONPATH, by an empty entry, only what follows our first line can be kept out.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.eca_server.stranger import REPOSITORY, content_of, is_finished

OURS = {
    "anyio", "attr", "attrs", "cattr", "cattrs", "certifi", "eca_protocol", "eca_server", "h11",
    "httpcore", "httpx", "hypothesis", "idna", "orjson", "outcome", "sitecustomize", "sniffio",
    "sortedcontainers", "trio", "typing_extensions", "usercustomize",
}  # fmt: skip

CONSOLE_SCRIPT = "import sys\nfrom eca_server.__main__ import main\nsys.exit(main())\n"
"""The script that an installer writes for the entry point `eca_server.__main__:main`."""


@pytest.fixture(scope="module")
def before_our_first_line() -> set[str]:
    code = "import runpy, sys; print(*{name.partition('.')[0] for name in sys.modules})"
    done = subprocess.run(
        [sys.executable, "-I", "-c", code], capture_output=True, text=True, check=True, timeout=20
    )
    return set(done.stdout.split())


@pytest.fixture
def hostile(tmp_path: Path) -> Path:
    """A folder with a module of every name there is; each leaves a mark when it is imported."""
    folder = tmp_path / "hostile"
    folder.mkdir()
    (tmp_path / "marks").mkdir()
    for name in OURS | set(sys.stdlib_module_names):
        mark = str(tmp_path / "marks" / name)
        (folder / f"{name}.py").write_text(f"open({mark!r}, 'w').close()\nraise SystemExit(99)\n")
    return folder


@pytest.mark.long(but=1)
@pytest.mark.requirement("LIFE-3")
@pytest.mark.parametrize(
    ("way", "python_path"),
    [
        ("-m", REPOSITORY),
        ("-P -m", REPOSITORY),
        ("console-script", REPOSITORY),
        ("-m", f"{REPOSITORY}:"),
    ],
)
def test_nothing_of_the_folder_is_imported(
    start_server, hostile, before_our_first_line, tmp_path, way, python_path
):
    script = tmp_path / "bin" / "eca-server"
    script.parent.mkdir()
    script.write_text(CONSOLE_SCRIPT)
    command = [sys.executable, str(script)]
    if way != "console-script":
        command = [sys.executable, *way.split(), "eca_server"]
    is_in_python_path = python_path != REPOSITORY
    if way == "-m" or is_in_python_path:
        for name in {*before_our_first_line, "eca_server"}:
            (hostile / f"{name}.py").unlink(missing_ok=True)
    if is_in_python_path:
        for name in ("sitecustomize", "usercustomize"):
            (hostile / f"{name}.py").unlink()
    config = '{"providers": {"p": {"api": "openai-chat", "url": "http://127.0.0.1:1/v1",'
    config += ' "key": "k", "models": {"m": {}}}}}'
    server = start_server(
        command=(*command, "server"),
        cwd=hostile,
        env={"PYTHONPATH": str(python_path), "ECA_CONFIG": config},
    )
    server.introduced(hostile)
    chat = server.prompt("hi", model="p/m")  # which loads the HTTP client, in vain
    server.until(lambda m: "trying again" in str(content_of(m).get("text")))
    server.stop(chat)
    if not is_finished(server.seen[-1]):
        server.expect_finished()
    server.prompt("/doctor")
    server.expect_finished()
    server.answer(server.ask("shutdown"))
    server.tell("exit")
    assert server.exit_code() == 0
    assert [mark.name for mark in (tmp_path / "marks").iterdir()] == []


def test_a_folder_that_was_removed_is_no_error(start_server, tmp_path):
    (tmp_path / "gone").mkdir()
    command = (
        "sh", "-c", 'rmdir ../gone; exec "$@"', "sh",
        sys.executable, "-m", "eca_server", "server",
    )  # fmt: skip
    server = start_server(command=command, cwd=tmp_path / "gone")
    server.introduced()
    server.prompt("say hello")
    server.expect_finished()
    server.close_input()
    assert server.exit_code() == 0
