from __future__ import annotations

import pytest

from eca_server.config.unknown import hint


@pytest.mark.parametrize(
    ("content", "key", "meant"),
    [
        ({"defaultModle": "a/b"}, "defaultModle", "defaultModel"),
        ({"DefaultModel": "a/b"}, "DefaultModel", "defaultModel"),
        ({"toolCall": {"aproval": {}}}, "toolCall.aproval", "approval"),
        ({"toolCall": {"approval": {"byDefaults": "ask"}}}, None, "byDefault"),
        ({"providers": {"p": {"models": {"m": {"limits": {}}}}}}, None, "limit"),
        ({"rules": [{"paths": "x"}]}, "rules[0].paths", "path"),
        ({"behavior": {"plan": {"disabledTool": []}}}, None, "disabledTools"),
    ],
)
def test_an_unknown_key_is_a_warning_that_names_the_nearest_one(house, content, key, meant):
    house.in_root(0, content)
    problem = house.problem()
    assert problem.level == "warning"
    assert problem.line == 1
    assert key is None or problem.key == key
    assert problem.message.endswith(f"did you mean {meant}?")


def test_a_key_like_no_other_is_a_warning_without_a_guess(house):
    house.in_root(0, {"zzz": 1})
    assert house.problem().level == "warning"
    assert "did you mean" not in str(house.problem())


def test_a_key_inside_what_is_the_users_own_is_not_judged(house):
    model = {"extraPayload": {"temprature": 1}, "extraHeaders": {"X-Y": "z"}}
    house.in_root(
        0,
        {
            "providers": {"p": {"models": {"m": model}}},
            "customTools": {"t": {"command": "c", "schema": {"propertees": {}}}},
        },
    )
    assert house.load().problems == ()


def test_the_clients_options_are_its_own_and_not_warned_about(house):
    house.options = {"someEditorsSetting": True}
    assert house.load().problems == ()


def test_a_thousand_unknown_keys_are_not_a_thousand_messages(house):
    house.in_root(0, {f"key{n}": 1 for n in range(1000)})
    problems = house.load().problems
    assert len(problems) == 21
    assert {problem.level for problem in problems} == {"warning"}
    assert "980" in problems[-1].message


def test_the_guess_looks_at_letters_not_at_case():
    assert hint("DEFAULTMODEL", ["defaultModel", "retry"]).endswith("did you mean defaultModel?")
