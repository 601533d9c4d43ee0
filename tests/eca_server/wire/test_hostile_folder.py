"""Started in a folder full of modules that are named like ours, the server imports none of them.

Every module is kept out but those that the interpreter imports by itself for `-m` before the first
line of ours: the modules that `import runpy` has loaded, and the package that `-m` names. With `-P`
or the console script not even these come from the folder; if it is in PYTHONPATH, by an empty or
relative entry, only what follows our first line can be kept out.
"""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.eca_server.stranger import REPOSITORY, content_of

OURS = {
    *("anyio", "attr", "attrs", "cattr", "cattrs", "certifi", "eca_protocol", "eca_server", "h11"),
    *("httpcore", "httpx", "hypothesis", "idna", "orjson", "outcome", "sitecustomize", "sniffio"),
    *("sortedcontainers", "trio", "typing_extensions", "usercustomize"),
}
CONSOLE_SCRIPT = "import sys\nfrom eca_server.__main__ import main\nsys.exit(main())\n"
"""The script that an installer writes for the entry point `eca_server.__main__:main`."""
PROVIDER = {"api": "openai-chat", "url": "http://127.0.0.1:1/v1", "key": "k", "models": {"m": {}}}
CONFIG = json.dumps({"providers": {"p": PROVIDER}})


def before_our_first_line() -> set[str]:
    code = "import runpy, sys; print(*{name.partition('.')[0] for name in sys.modules})"
    done = subprocess.run([sys.executable, "-I", "-c", code], stdout=-1, text=True, check=True)
    return {*done.stdout.split(), "eca_server"}


@pytest.fixture
def hostile(tmp_path: Path) -> Path:
    """A folder with a module of every name there is; each leaves a mark when it is imported."""
    folder = tmp_path / "hostile"
    folder.mkdir()
    (tmp_path / "marks").mkdir()
    for name in {*OURS, *sys.stdlib_module_names}:
        mark = str(tmp_path / "marks" / name)
        (folder / f"{name}.py").write_text(f"open({mark!r}, 'w').close()\nraise SystemExit(99)\n")
    return folder


@pytest.mark.long(but=1)
@pytest.mark.requirement("LIFE-3")
@pytest.mark.parametrize(
    ("options", "python_path"),
    [
        (["-m"], f"{REPOSITORY}"),
        (["-P", "-m"], f"{REPOSITORY}"),
        ([], f"{REPOSITORY}"),
        (["-m"], f"{REPOSITORY}:"),
        (["-m"], f"{REPOSITORY}:hostile"),
    ],
)
def test_nothing_of_the_folder_is_imported(start_server, hostile, tmp_path, options, python_path):
    script = tmp_path / "eca-server"
    script.write_text(CONSOLE_SCRIPT)
    program = [*options, "eca_server"] if options else [str(script)]
    unavoidable = before_our_first_line() if options == ["-m"] else set()
    if python_path != f"{REPOSITORY}":
        unavoidable |= {"sitecustomize", "usercustomize"}
    for name in unavoidable:
        (hostile / f"{name}.py").unlink(missing_ok=True)
    server = start_server(
        command=(sys.executable, *program, "server"),
        cwd=hostile.parent if python_path.endswith("hostile") else hostile,
        env={"PYTHONPATH": python_path, "ECA_CONFIG": CONFIG},
    )
    server.introduced(hostile)
    server.send_prompt("hi", model="p/m")  # which loads the HTTP client, in vain
    server.until(lambda m: "trying again" in str(content_of(m).get("text")))
    server.stop()
    server.expect_finished()
    server.turn("/doctor")
    assert server.leave() == 0
    assert [mark.name for mark in (tmp_path / "marks").iterdir()] == []
