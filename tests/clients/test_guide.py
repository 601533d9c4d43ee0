"""The guide for plugin authors says what this server does."""

import re
from pathlib import Path

import attrs
import pytest

import eca_server
from eca_server.client.profiles import ClientProfile, Display, Writing
from tests.clients.test_as_editors_send import EMACS, VSCODE, begin
from tests.clients.test_shown import ALLOWED, prompt
from tests.eca_server.stranger import content_of

GUIDE = (Path(__file__).parents[2] / "docs" / "guides" / "plugins.md").read_text("utf-8")


def test_the_guide_explains_each_difference_between_clients():
    differences = GUIDE.partition("\n## Differences between clients\n")[2]
    explained = re.findall(r"^\| `(\w+)` \| \S", differences, re.MULTILINE)
    groups = (Writing, Display, ClientProfile)
    traits = [field.name for group in groups for field in attrs.fields(group)]
    traits = [name for name in traits if name not in {"writing", "display"}]
    missing = [name for name in traits if name not in explained]
    assert not missing, "write the reason of each into docs/guides/plugins.md"
    assert explained == traits
    server = Path(eca_server.__file__).parent
    text = "".join(path.read_text("utf-8") for path in server.rglob("*.py"))
    unread = [name for name in traits if not re.search(rf"\.{name}\b", text)]
    assert not unread, "read it where the client differs, or remove it"


@pytest.mark.requirement("W-20c")
@pytest.mark.parametrize("hello", [VSCODE, EMACS])
def test_a_session_has_the_order_of_the_guide(start_server, tmp_path, hello):
    server = start_server(cwd=tmp_path, env=ALLOWED)
    begin(server, hello, tmp_path / "project")
    prompt(server, 5, "think hm", 'call eca_directory_tree {"path": "."}', "say so")
    order: list[str] = []
    for value in server.received:
        name = value.get("method", "the answer")
        content = content_of(value)
        if content.get("type") == "progress":
            name = f"progress {content['state']}"
        elif content:
            name = f"{content['type']} ({value['params']['role']})"
        if order[-1:] != [name]:
            order.append(name)
    [written] = re.findall(r"^```text\n(.*?)^```", GUIDE, re.MULTILINE | re.DOTALL)
    assert order == written.splitlines()
