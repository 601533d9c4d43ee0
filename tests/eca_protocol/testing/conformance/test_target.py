"""The start of a target, and its known failures."""

import json
from datetime import UTC, datetime
from pathlib import Path

import attrs
import pytest

from eca_protocol.revisions import Revision, detect, forced_revision
from eca_protocol.testing.conformance.personalities import PERSONALITIES
from eca_protocol.testing.conformance.run import Incident, Run, known_failures
from eca_protocol.testing.conformance.target import KEY, MODEL, Directories, Target
from eca_protocol.testing.conformance.verdicts import Finding


def test_it_is_sent_its_model_in_upstreams_form(tmp_path, monkeypatch):
    for name in ("OPENAI_API_KEY", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "sk-of-the-user")
    target = Target(command=("server", "--at={{workspace}}"), env={"MORE": "{{model}}"})
    directories = Directories(root=tmp_path)
    command, env = target.prepare(directories, "http://here/v1", {"chat": {"title": False}})
    config = json.loads(env["ECA_CONFIG"])
    provider = config["providers"]["conformance"]
    assert (provider["api"], provider["url"], provider["key"]) == (
        "openai-chat",
        "http://here/v1",
        KEY,
    )
    assert config["defaultModel"] == MODEL
    assert config["chat"] == {"title": False}
    assert command == ["server", f"--at={directories.workspace}"]
    assert env["MORE"] == MODEL
    assert {Path(env[name]).parent for name in ("HOME", "TMPDIR")} == {tmp_path}
    assert "sk-of-the-user" not in env.values()


def test_one_with_a_configuration_of_its_own_gets_a_file(tmp_path):
    target = Target(
        command=("server",),
        template="url={{url}} key={{key}}",
        template_name="server.ini",
        config_args=("--config", "{{file}}"),
        env={"SERVER_CONFIG": "{{file}}"},
        api="anthropic",
    )
    command, env = target.prepare(Directories(root=tmp_path), "http://here/v1", {})
    file = tmp_path / "server.ini"
    assert command == ["server", "--config", str(file)]
    assert env["SERVER_CONFIG"] == str(file)
    assert "ECA_CONFIG" not in env
    assert file.read_text() == f"url=http://here key={KEY}"
    assert not target.takes_config


@pytest.mark.parametrize("edition", Revision)
def test_an_edition_is_recognized_by_capabilities_and_by_our_option(edition, tmp_path):
    params = Target(edition=edition).initialize_params(tmp_path)
    assert forced_revision(params) is edition
    guessed = Revision.R2025_10 if edition is Revision.R2025_09 else edition
    assert detect(params) is guessed


@pytest.mark.parametrize(
    ("name", "edition"),
    [("emacs", Revision.CURRENT), ("emacs-2025", Revision.R2025_10), ("cli", Revision.R2025_10)],
)
def test_a_client_of_the_field_says_what_it_says(name, edition, tmp_path):
    params = Target(personality=PERSONALITIES[name]).initialize_params(tmp_path)
    assert detect(params) is edition
    assert params["workspaceFolders"] == [{"name": tmp_path.name, "uri": tmp_path.as_uri()}]


def test_each_client_writes_json_in_its_way():
    message = {"path": "a/b"}
    written = {name: who.body(message) for name, who in PERSONALITIES.items()}
    assert written["vscode"] == b'{"path":"a/b"}'
    assert written["emacs"] == b'{"path":"a/b"}\n'
    assert written["neovim"] == b'{"path":"a\\/b"}'


RUN = Run(
    target="it",
    edition=Revision.R2025_10,
    started=datetime(2026, 1, 1, tzinfo=UTC),
    seconds=1.0,
    findings=(
        Finding(id="W-20a", verdict="fail"),
        Finding(id="W-20b", verdict="pass"),
        Finding(id="CLIENT-2", verdict="warn"),
    ),
    incidents=(Incident(case="stops.a_stop", what="its end"),),
)


def test_what_is_known_to_fail_fails_the_run_no_more():
    known = known_failures("# today\nW-20a  # later\n\nW-20b\nstops.a_stop\n")
    assert known == {"W-20a", "W-20b", "stops.a_stop"}
    assert RUN.unexpected == ("W-20a", "stops.a_stop")
    assert attrs.evolve(RUN, known={"W-20a"}).unexpected == ("stops.a_stop",)
    run = attrs.evolve(RUN, known=known)
    assert (run.unexpected, run.passing_again) == ((), ("W-20b",))


def test_what_fails_today_can_be_written_down():
    assert known_failures(RUN.known_text()) == {"W-20a", "stops.a_stop"}


def test_a_known_failure_that_is_no_row_is_refused():
    with pytest.raises(ValueError, match="line 2: expected the id of a row, got 'W-999'"):
        known_failures("W-20a\nW-999\n")
