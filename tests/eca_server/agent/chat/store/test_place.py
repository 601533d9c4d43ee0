"""Where the chats lie, and what it costs not to ask for them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from eca_server.agent.chat.store.place import store_path, workspace_key


def test_sqlite_is_not_imported_before_the_first_call() -> None:
    code = "import sys, eca_server.agent.chat.store.store; sys.exit('sqlite3' in sys.modules)"
    assert (
        subprocess.run([sys.executable, "-P", "-c", code], timeout=20, check=False).returncode == 0
    )


def test_the_file_lies_where_the_xdg_rules_say(tmp_path: Path) -> None:
    home = {"HOME": "/home/me"}
    default = Path("/home/me/.local/share/eca-python/chats.sqlite")
    assert store_path(home) == default
    assert store_path({**home, "XDG_DATA_HOME": "relative"}) == default
    assert store_path({**home, "XDG_DATA_HOME": ""}) == default
    configured = store_path({**home, "XDG_DATA_HOME": str(tmp_path)})
    assert configured == tmp_path / "eca-python" / "chats.sqlite"
    assert store_path({}).parts[-4:] == (".local", "share", "eca-python", "chats.sqlite")


def test_a_workspace_is_its_real_roots_in_any_order(tmp_path: Path) -> None:
    one, two, link = tmp_path / "one", tmp_path / "two", tmp_path / "link"
    one.mkdir()
    link.symlink_to(one)
    assert workspace_key([one, two]) == workspace_key([two, link, one])
    keys = {workspace_key(roots) for roots in ([], [one], [two], [one, two], [Path("/\udcff")])}
    assert len(keys) == 5
