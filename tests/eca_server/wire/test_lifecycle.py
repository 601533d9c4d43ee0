"""The start of a conversation with the real process (rulings W-10 to W-12, W-15)."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.eca_server.conftest import SERVE


def shown(messages: list[Any]) -> list[tuple[str, str]]:
    shown = [each["params"] for each in messages if each.get("method") == "$/showMessage"]
    return [(params["type"], params["message"]) for params in shown]


def welcome(folder: Path, words: str) -> Path:
    """Write a configuration with a welcome into a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps({"welcomeMessage": words}))
    return folder / "config.json"


@pytest.mark.requirement("GEN-1")
def test_a_broken_configuration_is_reported_with_source_line_and_key(start_server, tmp_path):
    file = welcome(tmp_path / ".config" / "eca", "")
    file.write_text('{\n  "defaultModel": 7,\n  "welcomeMessage": "Hello"\n}\n')
    server = start_server(env={"ECA_CONFIG": '{"chat": {"title": "yes"},\n oops'})
    options = {"protocolRevision": "tomorrow"}
    assert server.initialize(initializationOptions=options)["chatWelcomeMessage"] == "Hello"
    server.settle()
    texts = {text.partition(": ")[0]: text for _, text in shown(server.received)}
    assert any(place.startswith("ECA_CONFIG:2") for place in texts)
    (of_file,) = [text for place, text in texts.items() if place.startswith(f"{file}:2")]
    assert "defaultModel" in of_file
    (of_option,) = [text for text in texts.values() if "'tomorrow'" in text]
    assert "2025-06, 2025-09, 2025-10, current" in of_option


TODAY = {"codeAssistant": {"chatCapabilities": {}}}


@pytest.mark.requirement("FIELD:InitializeResponse.globalConfigPath")
def test_the_file_that_is_read_is_named_by_its_absolute_path(start_server, tmp_path):
    file = welcome(tmp_path / "config" / "eca", "mine")
    server = start_server(env={"XDG_CONFIG_HOME": str(tmp_path / "config")})
    result = server.initialize(capabilities=TODAY)
    assert result == {"chatWelcomeMessage": "mine", "globalConfigPath": str(file)}
    own = welcome(tmp_path / "own", "own")
    server = start_server(command=(*SERVE, "--config-file", str(own)))
    assert server.initialize(capabilities=TODAY)["globalConfigPath"] == str(own)
    server = start_server(command=(*SERVE, "--protocol-revision", "2025-10"))
    assert set(server.initialize(capabilities=TODAY)) == {"chatWelcomeMessage"}  # it is forced
