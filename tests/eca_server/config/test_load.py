from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eca_server.config.loading import load
from eca_server.config.problems import Source
from eca_server.config.reading import deep_merge
from eca_server.config.settings import CatalogSettings, Config, Cost, Limit, Model, Retry
from eca_server.secret import Secret

KEY = "planted-0123456789-key"


def test_nothing_configured_gives_the_defaults(house):
    loaded = house.load()
    assert loaded.config == Config()
    assert loaded.problems == ()
    assert {source.state for source in loaded.sources} == {"absent"}


def test_the_later_source_wins_in_the_documented_order(house):
    models = []
    house.options = {"defaultModel": "options/m", "chat": {"title": False}}
    models.append(house.config().default_model)
    house.environ["ECA_CONFIG"] = '{"defaultModel": "variable/m"}'
    models.append(house.config().default_model)
    house.write(house.user, {"defaultModel": "user/m"})
    models.append(house.config().default_model)
    house.in_root(0, {"defaultModel": "first/m"})
    models.append(house.config().default_model)
    house.in_root(1, {"defaultModel": "second/m"})
    models.append(house.config().default_model)
    assert models == ["options/m", "variable/m", "user/m", "first/m", "second/m"]
    assert house.config().chat_title is False


def test_the_files_that_others_name_come_last(house):
    extra = house.write(house.folder / "extra.json", {"defaultModel": "extra/m", "retry": {}})
    house.write(house.home / "more.json", {"defaultModel": "more/m", "extraConfigs": ["/none"]})
    house.in_user({"extraConfigs": [str(extra), "~/more.json"]})
    house.in_root(1, {"defaultModel": "second/m", "lspTimeoutSeconds": 5})
    loaded = house.load()
    assert (loaded.config.default_model, loaded.config.lsp_timeout) == ("more/m", 5)
    assert loaded.problems == ()
    extra.write_text("{}")
    assert not loaded.is_current()
    extra.unlink()
    assert "does not exist" in house.problem().message


def test_maps_merge_deep_between_sources_and_roots(house):
    house.options = {
        "providers": {"corp": {"url": "http://a", "models": {"m": {"limit": {"context": 9}}}}}
    }
    house.in_user({"providers": {"corp": {"models": {"m": {"limit": {"output": 3}}, "n": {}}}}})
    house.in_root(1, {"providers": {"other": {"api": "openai-chat"}}})
    providers = house.config().providers
    assert providers["corp"].url == "http://a"
    assert providers["corp"].models == {"m": Model(limit=Limit(context=9, output=3)), "n": Model()}
    assert providers["other"].api == "openai-chat"


def test_lists_are_replaced(house):
    payload = ["providers", "p", "models", "m", "extraPayload"]
    house.options = nested(payload, {"stop": ["a", "b"], "x": 1})
    house.in_user(nested(payload, {"stop": ["c"]}))
    assert house.config().providers["p"].models["m"].extra_payload == {"stop": ["c"], "x": 1}


def test_null_unsets_the_value_of_an_earlier_source(house):
    house.options = {"defaultModel": "a/b", "providers": {"p": {"url": "http://a"}, "q": {}}}
    house.in_user({"defaultModel": None, "providers": {"p": {"url": None}, "q": None}})
    config = house.config()
    assert config.default_model is None
    assert config.providers["p"].url is None
    assert "q" not in config.providers


def test_a_null_inside_a_payload_is_the_users_own(house):
    house.options = nested(["providers", "p", "models", "m", "extraPayload"], {"temperature": None})
    assert house.config().providers["p"].models["m"].extra_payload == {"temperature": None}


def test_an_older_spelling_counts_where_its_source_is(house):
    house.options = {
        "chat": {"defaultBehavior": "plan", "welcomeMessage": "old", "defaultModel": "a/b"},
        "welcomeMessage": "beside it",
    }
    config = house.config()
    assert (config.default_behavior, config.default_model) == ("plan", "a/b")
    assert config.welcome_message == "old"
    house.options = {"defaultBehavior": "agent", "chat": {"defaultBehavior": "plan"}}
    assert house.config().default_behavior == "plan"
    house.in_root(0, {"defaultBehavior": "agent", "welcomeMessage": "new"})
    config = house.config()
    assert (config.default_behavior, config.welcome_message) == ("agent", "new")


def test_the_behaviour_a_client_asks_for_is_no_layer_of_the_configuration(house):
    house.options = {"chatBehavior": "plan", "chatAgent": "plan"}
    assert house.config().default_behavior == "agent"


def test_a_pure_configuration_has_no_other_source(house):
    house.environ["ECA_CONFIG"] = '{"defaultModel": "variable/m"}'
    house.write(house.user, "broken")
    house.in_root(0, {"defaultModel": "first/m"})
    house.options = {"pureConfig": True, "chat": {"title": False}}
    loaded = house.load()
    assert loaded.config == Config(chat_title=False)
    assert [source.name for source in loaded.sources] == ["initializationOptions"]
    house.options = {"pureConfig": False}
    assert house.load().config.default_model == "first/m"


def test_a_given_file_replaces_the_users_and_the_workspaces(house):
    house.environ["ECA_CONFIG"] = '{"welcomeMessage": "hello", "defaultModel": "variable/m"}'
    house.write(house.user, {"defaultModel": "user/m", "chat": {"title": False}})
    house.in_root(0, {"defaultModel": "first/m"})
    house.config_file = house.write(house.folder / "given.json", {"defaultModel": "given/m"})
    config = house.config()
    assert (config.default_model, config.welcome_message) == ("given/m", "hello")
    assert config.chat_title is True


def test_a_given_file_must_be_there(house):
    house.config_file = house.folder / "given.json"
    assert house.problem().source == str(house.config_file)
    assert house.load().sources[-1] == Source(name=str(house.config_file), state="broken")


def test_the_users_file_follows_the_xdg_rules(house):
    house.write(house.user, {"defaultModel": "user/m"})
    elsewhere = house.folder / "xdg"
    house.write(elsewhere / "eca" / "config.json", {"defaultModel": "xdg/m"})
    for configured, expected in [
        ("", "user/m"),
        ("relative/folder", "user/m"),
        (str(elsewhere), "xdg/m"),
    ]:
        house.environ["XDG_CONFIG_HOME"] = configured
        assert house.config().default_model == expected


def test_the_home_comes_from_the_environment_unless_given(house):
    house.write(house.user, {"defaultModel": "user/m"})
    loaded = load(initialization_options=None, roots=[], environ={"HOME": str(house.home)})
    assert loaded.config.default_model == "user/m"


def test_comments_a_byte_order_mark_and_an_empty_file_are_fine(house):
    house.write(house.user, '\ufeff// mine\n{/* which */ "defaultModel": "a/b"}\n')
    house.in_root(0, "")
    house.in_root(1, "// nothing yet\n")
    assert house.config().default_model == "a/b"


def test_keys_that_are_not_read_are_not_looked_into(house):
    house.in_root(
        0,
        {
            "plugins": {"x": {"command": "${cmd:nothing}", "env": {"T": "${env:NOWHERE}"}}},
            "toolCall": {"approval": {"byDefault": "ask"}},
            "providers": {"p": {"cacheRetention": "long", "models": {"m": {}}}},
            "remote": 3,
        },
    )
    loaded = house.load()
    assert set(loaded.config.providers) == {"p"}
    assert {problem.level for problem in loaded.problems} == {"warning"}


def test_everything_known_is_read(house):
    house.in_user(
        {
            "providers": {
                "p": {
                    "api": "openai-chat",
                    "url": " https://host/v1 ",
                    "urlEnv": "P_URL",
                    "key": f" {KEY}\n",
                    "keyEnv": "P_KEY",
                    "completionUrlRelativePath": "/chat",
                    "extraHeaders": {"X-Team": "a"},
                    "fetchModels": False,
                    "models": {
                        "m": {
                            "modelName": "real",
                            "extraHeaders": {"X": "b"},
                            "variants": {
                                "high": {"reasoning": {"effort": "high", "summary": None}}
                            },
                            "reasoningHistory": "turn",
                            "imageInput": False,
                        }
                    },
                }
            },
            "catalog": {"refresh": False, "url": "http://mirror"},
            "connectTimeoutSeconds": 1,
            "firstByteTimeoutSeconds": 2.5,
            "streamIdleTimeoutSeconds": 3,
            "noProgressTimeoutSeconds": 4,
            "rateLimitMaxWaitSeconds": 5,
            "retry": {
                "maxRetries": 0,
                "baseDelayMs": 100,
                "backoffMultiplier": 1.5,
                "maxDelayMs": 900,
            },
        }
    )
    config = house.config()
    provider = config.providers["p"]
    assert (provider.api, provider.url, provider.url_env) == (
        "openai-chat",
        "https://host/v1",
        "P_URL",
    )
    assert (provider.key, provider.key_env) == (Secret(KEY), "P_KEY")
    assert provider.completion_url_relative_path == "/chat"
    assert provider.extra_headers == {"X-Team": "a"}
    assert provider.fetch_models is False
    assert provider.models["m"] == Model(
        model_name="real",
        extra_headers={"X": "b"},
        variants={"high": {"reasoning": {"effort": "high", "summary": None}}},
        reasoning_history="turn",
        image_input=False,
    )
    assert config.catalog == CatalogSettings(refresh=False, url="http://mirror")
    assert (config.connect_timeout, config.first_byte_timeout) == (1, 2.5)
    assert (config.stream_idle_timeout, config.no_progress_timeout) == (3, 4)
    assert config.rate_limit_max_wait == 5
    assert config.retry == Retry(
        max_retries=0, base_delay_ms=100, backoff_multiplier=1.5, max_delay_ms=900
    )


WRONG: list[tuple[str, object]] = [
    ("providers", []),
    ("providers.p", "x"),
    ("providers.p.url", 1),
    ("providers.p.key", ["x"]),
    ("providers.p.key", "two\nlines"),
    ("providers.p.key", "schlüssel"),
    ("providers.p.models", ["m"]),
    ("providers.p.models.m", True),
    ("providers.p.models.m.extraPayload", []),
    ("providers.p.models.m.extraHeaders.X", 1),
    ("providers.p.models.m.limit.context", "9"),
    ("providers.p.models.m.limit.output", -1),
    ("providers.p.models.m.reasoningHistory", "some"),
    ("providers.p.models.m.variants.high", "high"),
    ("providers.p.fetchModels", "no"),
    ("catalog.refresh", 0),
    ("providers.p.models.m.limit.output", 5.0),
    ("providers.p.models.m.cost.input", -0.1),
    ("providers.p.models.m.cost.cacheRead", "0.1"),
    ("autoCompactPercentage", 0),
    ("autoCompactPercentage", 101),
    ("autoCompactPercentage", "75"),
    ("behavior.plan.autoCompactPercentage", False),
    ("defaultModel", {}),
    ("chat", 3),
    ("chat.title", "no"),
    ("chat.defaultBehavior", 1),
    ("welcomeMessage", False),
    ("connectTimeoutSeconds", 0),
    ("connectTimeoutSeconds", True),
    ("streamIdleTimeoutSeconds", "120"),
    ("streamIdleTimeoutSeconds", 10**400),
    ("retry", "often"),
    ("retry.maxRetries", True),
    ("retry.maxRetries", 10**400),
    ("retry.backoffMultiplier", 0),
    ("defaultModel", "${env:NOWHERE}"),
    ("defaultModel", "${file:nowhere.txt}"),
    ("defaultModel", "${netrc:host}"),
]


@pytest.mark.parametrize(("key", "value"), WRONG, ids=range(len(WRONG)))
def test_a_wrong_value_costs_its_own_key_and_is_named(house, key, value):
    good = {"url": "http://a", "models": {"kept": {}}}
    house.options = {"welcomeMessage": "kept", "providers": {"kept": good}}
    text = json.dumps(
        deep_merge(nested(key.split("."), value), {"rateLimitMaxWaitSeconds": 7}), indent=1
    )
    path = house.in_user(text)
    loaded = house.load()
    (problem,) = loaded.problems
    assert (problem.source, problem.key) == (str(path), key)
    line = text.splitlines()[(problem.line or 0) - 1]
    assert f'"{key.rsplit(".", maxsplit=1)[-1]}"' in line
    assert problem.column == len(line) - len(line.lstrip()) + 1
    assert loaded.config.rate_limit_max_wait == 7
    assert loaded.config.welcome_message == "kept"
    assert set(loaded.config.providers["kept"].models) == {"kept"}


@pytest.mark.parametrize(
    ("key", "value", "got"),
    [
        ("connectTimeoutSeconds", -2.5, "-2.5"),
        ("retry.maxRetries", -1, "-1"),
        ("providers.p.models.m.cost.input", -0.1, "-0.1"),
        ("retry.maxRetries", 10**400, "a number"),
        ("connectTimeoutSeconds", True, "true"),
        ("hooks.h.type", "preToolcall", "'preToolcall'"),
        ("hooks.h.type", KEY, "a different one"),
        ("defaultModel", 7, "a number"),
    ],
)
def test_a_number_or_a_text_that_does_not_fit_is_reported_without_a_key(house, key, value, got):
    house.options = nested(key.split("."), value)
    assert house.problem().message.endswith(f", got {got}")


def test_when_a_chat_is_compacted_and_what_a_model_costs_is_read(house):
    assert house.config().auto_compact_percentage == 75
    cost = {"input": 0, "output": 1.5, "cacheRead": 0.1, "cacheWrite": 2}
    house.in_root(
        0,
        {
            "autoCompactPercentage": 60,
            "agent": {"plan": {"autoCompactPercentage": 100}},
            "providers": {"p": {"models": {"m": {"cost": cost}}}},
        },
    )
    config = house.config()
    assert config.auto_compact_percentage == 60
    assert config.behaviors["plan"].auto_compact_percentage == 100
    assert config.providers["p"].models["m"].cost == Cost(
        input=0, output=1.5, cache_read=0.1, cache_write=2
    )


def test_a_wrong_value_leaves_that_of_an_earlier_source(house):
    house.options = {"defaultModel": "a/b", "providers": {"p": {"url": "http://a"}}}
    house.in_user({"defaultModel": 3, "providers": {"p": {"url": [], "key": "x"}}})
    loaded = house.load()
    assert [problem.key for problem in loaded.problems] == ["providers.p.url", "defaultModel"]
    assert loaded.config.default_model == "a/b"
    assert loaded.config.providers["p"].url == "http://a"
    assert loaded.config.providers["p"].key == Secret("x")


def test_a_key_with_a_dot_in_it_is_quoted(house):
    house.options = {"providers": {"my.corp": {"url": 3}}}
    assert house.problem().key == 'providers."my.corp".url'


@pytest.mark.parametrize("options", ["text", 3, [1], True])
def test_options_that_are_no_object_are_a_problem(house, options):
    house.options = options
    assert house.problem().source == "initializationOptions"
    assert house.load().sources[0].state == "broken"


def test_a_broken_source_is_named_and_the_rest_counts(house):
    house.options = {"defaultModel": "options/m"}
    house.environ["ECA_CONFIG"] = '{"a": 1,\n "b" }'
    path = house.in_root(0, "[]")
    house.in_root(1, {"chat": {"title": False}})
    loaded = house.load()
    variable, file = loaded.problems
    assert (variable.source, variable.line, variable.column) == ("ECA_CONFIG", 2, 6)
    assert (file.source, file.key) == (str(path), None)
    assert [source.state for source in loaded.sources] == [
        "used",
        "broken",
        "absent",
        "broken",
        "used",
    ]
    assert loaded.config.default_model == "options/m"
    assert loaded.config.chat_title is False


def test_a_thousand_errors_are_not_a_thousand_messages(house):
    house.options = {"providers": {f"p{n}": 1 for n in range(1000)}}
    problems = house.load().problems
    assert len(problems) == 21
    assert "980" in problems[-1].message


PLANTED: list[object] = [
    {"providers": {"p": {"key": KEY, "extraHeaders": {"Authorization": KEY}}}},
    {"providers": {"p": {"url": f"https://user:{KEY}@host/v1?key={KEY}"}}},
    {"providers": {"p": {"completionUrlRelativePath": f"/chat?key={KEY}"}}},
    {"providers": {"p": {"models": {"m": {"extraPayload": {"token": KEY}}}}}},
    {"providers": {"p": {"models": {"m": {"extraHeaders": {"x": KEY}}}}}},
    {"providers": {"p": {"key": [KEY]}}},
    {"providers": {"p": {"key": {"key": KEY}}}},
    {"providers": {"p": {"key": f"{KEY}\n{KEY}"}}},
    {"providers": KEY},
    {"retry": {"maxRetries": KEY}},
    {"chat": KEY},
    {"chat": {"title": KEY}},
    KEY,
    [KEY],
]


@pytest.mark.parametrize("content", PLANTED, ids=range(len(PLANTED)))
def test_no_key_shows_in_what_loading_gives(house, content):
    house.options = content
    house.environ["ECA_CONFIG"] = json.dumps(content)
    house.in_root(0, content if isinstance(content, str) else json.dumps(content))
    loaded = house.load()
    assert KEY not in repr(loaded) + str(loaded)
    assert not any(KEY in str(problem) for problem in loaded.problems)


@given(st.integers(0, 120), st.sampled_from(["cut", "doubled", "dropped"]))
def test_no_key_shows_when_its_text_is_broken(place, how):
    text = json.dumps({"providers": {"p": {"key": KEY, "url": KEY, "models": {"m": {}}}}})
    broken = {
        "cut": text[:place],
        "doubled": text[:place] + text[place : place + 1] + text[place:],
        "dropped": text[:place] + text[place + 1 :],
    }[how]
    loaded = load(
        initialization_options=None,
        roots=[],
        environ={"ECA_CONFIG": broken},
        home=Path("/nonexistent"),
    )
    assert not any("planted" in str(problem) for problem in loaded.problems)
    assert all(problem.source == "ECA_CONFIG" for problem in loaded.problems)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=8,
)
maps = st.dictionaries(st.sampled_from("abc"), json_values)


@given(maps)
def test_merging_with_nothing_or_itself_changes_nothing(value):
    assert deep_merge(value, {}) == deep_merge({}, value) == deep_merge(value, value) == value


@given(maps, maps)
def test_of_two_maps_the_newer_wins_wherever_it_speaks(older, newer):
    merged = deep_merge(older, newer)
    assert deep_merge(merged, newer) == merged
    assert merged.keys() == older.keys() | newer.keys()
    for name, value in newer.items():
        if not isinstance(value, dict):
            assert merged[name] == value
    for name in older.keys() - newer.keys():
        assert merged[name] == older[name]


KNOWN = [
    "providers", "p", "models", "m", "extraPayload", "extraHeaders", "limit", "context", "key",
    "url", "api", "defaultModel", "chat", "title", "retry", "maxRetries", "connectTimeoutSeconds",
    "pureConfig",
]  # fmt: skip
anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5)
    | st.sampled_from(["${env:A}", "${env:A:}", "${file:x}", "${cmd:x}", "${", "${env:\0}"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KNOWN), inner),
    max_leaves=12,
)  # fmt: skip


@given(anything, anything)
def test_no_json_makes_loading_raise(options, variable):
    loaded = load(
        initialization_options=options,
        roots=[],
        environ={"ECA_CONFIG": json.dumps(variable)},
        home=Path("/nonexistent"),
    )
    assert isinstance(loaded.config, Config)


def nested(path: list[str], value: object) -> Mapping[str, Any]:
    for step in reversed(path):
        value = {step: value}
    assert isinstance(value, dict)
    return value
