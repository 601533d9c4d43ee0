from __future__ import annotations

import json

import pytest

from eca_server.secret import Secret

KEY = "planted-0123456789-key"


def test_variables_and_files_are_put_into_any_string(house):
    house.write(house.folder / "one" / ".eca" / "key.txt", f"{KEY}\n")
    house.write(house.home / "name", "at home\r\n")
    house.environ.update(HOST="example.org", EMPTY="")
    house.in_root(
        0,
        {
            "providers": {
                "${env:HOST}": {
                    "url": "https://${env:HOST}:8080/${env:EMPTY}v1",
                    "key": "${file:key.txt}",
                    "models": {
                        "m": {"extraPayload": {"user": ["${file:~/name}", {"${env:HOST}": 1}]}}
                    },
                }
            },
            "defaultModel": "${env:NOWHERE:https://default:1}/${env:EMPTY:m}",
            "welcomeMessage": "$HOST ${HOST} ${other:x} $${env:HOST}",
        },
    )
    config = house.config()
    provider = config.providers["${env:HOST}"]
    assert provider.url == "https://example.org:8080/v1"
    assert provider.key == Secret(KEY)
    assert provider.models["m"].extra_payload == {"user": ["at home", {"${env:HOST}": 1}]}
    assert config.default_model == "https://default:1/m"
    assert config.welcome_message == "$HOST ${HOST} ${other:x} $example.org"


@pytest.mark.parametrize(
    ("content", "expected"), [("a\n\n", "a\n"), ("a\r\n", "a"), ("a\r", "a\r"), ("\na", "\na")]
)
def test_only_the_last_newline_of_a_file_is_dropped(house, content, expected):
    path = house.write(house.folder / "text", content)
    house.options = {"welcomeMessage": f"${{file:{path}}}"}
    assert house.config().welcome_message == expected


def test_what_was_put_in_is_not_searched_again(house):
    house.environ.update(OUTER="${env:INNER}", INNER="wrong")
    house.options = {"welcomeMessage": "${env:OUTER}"}
    assert house.config().welcome_message == "${env:INNER}"


@pytest.mark.parametrize("text", ["${netrc:host}", "${classpath:x}", "${plugin:x}"])
def test_a_kind_of_reference_we_do_not_have_is_a_problem(house, text):
    house.options = {"providers": {"p": {"key": text, "url": "http://a"}}}
    assert house.problem().key == "providers.p.key"
    assert house.load().config.providers["p"].url == "http://a"


def test_a_text_inside_upstream_s_program_is_named_as_one(house):
    house.options = {"welcomeMessage": "${classpath:prompts/hello.md}"}
    assert "inside upstream's program: remove the key" in house.problem().message


def test_a_relative_file_needs_a_folder_to_start_from(house):
    house.environ["ECA_CONFIG"] = '{"welcomeMessage": "${file:key.txt}"}'
    assert house.problem().key == "welcomeMessage"


@pytest.mark.parametrize("key", ["compactPromptFile", "netrcFile"])
def test_a_problem_quotes_a_path_as_written_and_never_its_value(house, key):
    house.environ |= {"TOKEN": KEY, "ECA_CONFIG": json.dumps({key: "${env:TOKEN}"})}
    problem = house.problem()
    assert problem.key == key
    assert problem.message == "expected an absolute path or ~/.., got '${env:TOKEN}'"


def test_a_missing_reference_in_a_payload_costs_its_own_key(house):
    payload = {"a": {"b": ["${env:NOWHERE}"], "c": 1}}
    house.options = {"providers": {"p": {"models": {"m": {"extraPayload": payload}}}}}
    loaded = house.load()
    assert [problem.key for problem in loaded.problems] == [
        "providers.p.models.m.extraPayload.a.b[0]"
    ]
    assert loaded.config.providers["p"].models["m"].extra_payload == {"a": {"c": 1}}
