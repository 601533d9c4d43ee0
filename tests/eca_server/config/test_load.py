import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eca_server.config.loading import LoadedConfig, load
from eca_server.config.problems import Source
from eca_server.config.reading import deep_merge
from eca_server.config.settings import CatalogSettings, Config, Cost, Limit, Model, Retry
from eca_server.secret import Secret

KEY = "planted-0123456789-key"


def nested(key: str, value: object) -> dict[str, Any]:
    for step in reversed(key.split(".")):
        value = {step: value}
    assert isinstance(value, dict)
    return value


def load_alone(options: object, variable: str) -> LoadedConfig:
    environ = {"ECA_CONFIG": variable, "HOME": "/nonexistent"}
    return load(initialization_options=options, roots=[], environ=environ)


def test_the_later_source_wins_in_the_documented_order(house):
    house.options = {"defaultModel": "options/m", "chat": {"title": False}}
    models = [house.config().default_model]
    house.environ["ECA_CONFIG"] = '{"defaultModel": "variable/m"}'
    models.append(house.config().default_model)
    house.in_user({"defaultModel": "user/m"})
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
    loaded = house.load()
    assert loaded.problems == ()
    assert Source(name=str(extra), state="absent") in loaded.sources


def test_maps_merge_deep_lists_are_replaced_and_null_unsets(house):
    model = {"limit": {"context": 9}, "extraPayload": {"stop": ["a", "b"], "x": 1, "y": None}}
    corp = {"url": "http://a", "models": {"m": model}}
    house.options = {"defaultModel": "a/b", "providers": {"corp": corp, "p": corp, "q": {}}}
    model = {"limit": {"output": 3}, "extraPayload": {"stop": ["c"]}}
    corp = {"models": {"m": model, "n": {}}}
    house.in_user(
        {"defaultModel": None, "providers": {"corp": corp, "p": {"url": None}, "q": None}}
    )
    house.in_root(1, {"providers": {"other": {"api": "openai-chat"}}})
    config = house.config()
    assert config.default_model is None
    assert set(config.providers) == {"corp", "p", "other"}
    assert config.providers["corp"].url == "http://a"
    assert config.providers["corp"].models == {
        "m": Model(
            limit=Limit(context=9, output=3), extra_payload={"stop": ["c"], "x": 1, "y": None}
        ),
        "n": Model(),
    }
    assert config.providers["p"].url is None
    assert config.providers["other"].api == "openai-chat"


def test_an_older_spelling_counts_where_its_source_is(house):
    chat = {"defaultBehavior": "plan", "welcomeMessage": "old", "defaultModel": "a/b"}
    house.options = {"chat": chat, "welcomeMessage": "beside it"}
    config = house.config()
    assert (config.default_behavior, config.default_model) == ("plan", "a/b")
    assert config.welcome_message == "old"
    house.options = {"defaultBehavior": "agent", "chat": {"defaultBehavior": "plan"}}
    assert house.config().default_behavior == "plan"
    house.in_root(0, {"defaultBehavior": "agent", "welcomeMessage": "new"})
    config = house.config()
    assert (config.default_behavior, config.welcome_message) == ("agent", "new")
    # Editors spell the keys of their options in camelCase.
    house.options = {"providers": {"myCorp": {"url": "http://a"}, "onlyHere": {}}}
    house.in_user({"providers": {"my-corp": {"fetchModels": False}}})
    providers = house.config().providers
    corp = providers["my-corp"]
    assert set(providers) == {"my-corp", "onlyHere"}
    assert (corp.url, corp.fetch_models) == ("http://a", False)


def test_the_answer_to_initialize_reads_the_users_own_settings_alone(house):
    house.in_user({"defaultModel": "mine/m"})
    house.write(house.user.parent / "agents" / "a.md", "text")
    house.in_root(0, {"defaultModel": "theirs/m"})
    first = house.load_once(is_first=True)
    assert first.config.default_model == "mine/m"
    assert first.config.behaviors == Config().behaviors
    assert not any(house.roots[0] in path.parents for path in first.files)


def test_a_pure_configuration_has_no_other_source(house):
    house.environ["ECA_CONFIG"] = '{"defaultModel": "variable/m"}'
    house.in_user("broken")
    house.options = {"pureConfig": True, "chat": {"title": False}, "chatAgent": "no setting"}
    loaded = house.load()
    assert (loaded.config, loaded.problems) == (Config(chat_title=False), ())
    assert [source.name for source in loaded.sources] == ["initializationOptions"]


def test_the_users_file_is_in_the_home_or_where_xdg_says(house):
    house.in_user({"defaultModel": "user/m"})
    loaded = load(initialization_options=None, roots=[], environ={"HOME": str(house.home)})
    assert loaded.config.default_model == "user/m"
    elsewhere = house.folder / "xdg"
    house.write(elsewhere / "eca" / "config.json", {"defaultModel": "xdg/m"})
    house.environ["XDG_CONFIG_HOME"] = str(elsewhere)
    assert house.config().default_model == "xdg/m"


def test_a_given_file_replaces_the_users_and_the_workspaces_and_must_be_there(house):
    house.environ["ECA_CONFIG"] = '{"welcomeMessage": "hello", "defaultModel": "variable/m"}'
    house.in_user({"defaultModel": "user/m", "chat": {"title": False}})
    house.in_root(0, {"defaultModel": "first/m"})
    house.config_file = house.write(house.folder / "given.json", {"defaultModel": "given/m"})
    config = house.config()
    assert (config.default_model, config.welcome_message) == ("given/m", "hello")
    assert config.chat_title is True
    house.environ["ECA_CONFIG"] = '{"extraConfigs": [".eca/more.json", "/none"]}'
    [problem] = house.load().problems
    assert str(problem) == (
        "ECA_CONFIG: extraConfigs: `.eca/more.json`: skipped, as `--config-file "
        f"{house.config_file}` replaces the files of workspace folders; write an absolute path"
    )
    del house.environ["ECA_CONFIG"]
    house.config_file.unlink()
    assert house.problem().source == str(house.config_file)
    assert house.load().sources[-1] == Source(name=str(house.config_file), state="broken")


def test_comments_a_byte_order_mark_and_an_empty_file_are_fine(house):
    house.in_user('\ufeff// mine\n{/* which */ "defaultModel": "a/b"}\n')
    house.in_root(0, "")
    house.in_root(1, "// nothing yet\n")
    assert house.config().default_model == "a/b"


EVERYTHING = """{
  "providers": {"p": {
    "api": "openai-chat",
    "url": " https://host/v1 ",
    "urlEnv": "P_URL",
    "key": " planted-0123456789-key\\n",
    "keyEnv": "P_KEY",
    "completionUrlRelativePath": "/chat",
    "extraHeaders": {"X-Team": "a"},
    "fetchModels": false,
    "models": {"m": {
      "modelName": "real",
      "extraHeaders": {"X": "b"},
      "variants": {"high": {"reasoning": {"effort": "high", "summary": null}}},
      "reasoningHistory": "turn",
      "imageInput": false,
      "cost": {"input": 0, "output": 1.5, "cacheRead": 0.1, "cacheWrite": 2}
    }}
  }},
  "catalog": {"refresh": false, "url": "http://mirror"},
  "connectTimeoutSeconds": 1,
  "firstByteTimeoutSeconds": 2.5,
  "streamIdleTimeoutSeconds": 3,
  "noProgressTimeoutSeconds": 4,
  "rateLimitMaxWaitSeconds": 5,
  "retry": {"maxRetries": 0, "baseDelayMs": 100, "backoffMultiplier": 1.5, "maxDelayMs": 900},
  "autoCompactPercentage": 60,
  "agent": {"plan": {"autoCompactPercentage": 100}}
}"""


def test_everything_known_is_read(house):
    assert house.config().auto_compact_percentage == 75
    house.in_user(EVERYTHING)
    config = house.config()
    provider = config.providers["p"]
    assert (provider.api, provider.url) == ("openai-chat", "https://host/v1")
    assert (provider.url_env, provider.key_env) == ("P_URL", "P_KEY")
    assert (provider.key, provider.fetch_models) == (Secret(KEY), False)
    assert provider.completion_url_relative_path == "/chat"
    assert provider.extra_headers == {"X-Team": "a"}
    assert provider.models["m"] == Model(
        model_name="real",
        extra_headers={"X": "b"},
        variants={"high": {"reasoning": {"effort": "high", "summary": None}}},
        reasoning_history="turn",
        image_input=False,
        cost=Cost(input=0, output=1.5, cache_read=0.1, cache_write=2),
    )
    assert config.catalog == CatalogSettings(refresh=False, url="http://mirror")
    assert (config.connect_timeout, config.first_byte_timeout) == (1, 2.5)
    assert (config.stream_idle_timeout, config.no_progress_timeout) == (3, 4)
    assert (config.rate_limit_max_wait, config.auto_compact_percentage) == (5, 60)
    assert config.behaviors["plan"].auto_compact_percentage == 100
    assert config.retry == Retry(
        max_retries=0, base_delay_ms=100, backoff_multiplier=1.5, max_delay_ms=900
    )


@pytest.mark.parametrize(
    ("key", "value", "got"),
    [
        ("providers", [], ""),
        ("providers.p.url", 1, ""),
        ("providers.p.key", ["x"], ""),
        ("providers.p.key", "two\nlines", ""),
        ("providers.p.models", ["m"], ""),
        ("providers.p.models.m", True, ""),
        ("providers.p.models.m.extraPayload", [], ""),
        ("providers.p.models.m.reasoningHistory", "some", ""),
        ("providers.p.fetchModels", "no", ""),
        ("catalog.refresh", 0, ""),
        ("providers.p.models.m.limit.output", 5.0, ""),
        ("providers.p.models.m.cost.input", -0.1, ", got -0.1"),
        ("providers.p.models.m.cost.cacheRead", "0.1", ""),
        ("autoCompactPercentage", 0, ""),
        ("autoCompactPercentage", 101, ""),
        ("defaultModel", 7, ", got a number"),
        ("chat", 3, ""),
        ("chat.title", "no", ""),
        ("connectTimeoutSeconds", 0, ""),
        ("connectTimeoutSeconds", -2.5, ", got -2.5"),
        ("connectTimeoutSeconds", True, ", got true"),
        ("streamIdleTimeoutSeconds", 10**400, ""),
        ("retry.maxRetries", -1, ", got -1"),
        ("retry.maxRetries", 10**400, ", got a number"),
        ("retry.backoffMultiplier", 0, ""),
        ("hooks.h.type", "preToolcall", ", got 'preToolcall'"),
        ("hooks.h.type", KEY, ", got a different one"),
        ("toolCall.approval.byDefault", "never", ""),
        ("toolCall.approval.deny", ["eca_grep"], ""),
        ("toolCall.readFile.maxLines", -1, ""),
        ("customTools.x.command", 3, ""),
        ("defaultModel", "${env:NOWHERE}", ""),
        ("defaultModel", "${file:nowhere.txt}", ""),
        ("defaultModel", "${netrc:host}", ""),
    ],
    ids=range(34),
)
def test_a_wrong_value_costs_its_own_key_and_is_named(house, key, value, got):
    good = {"url": "http://a", "models": {"kept": {}}}
    house.options = {"welcomeMessage": "kept", "providers": {"kept": good}}
    text = json.dumps(deep_merge(nested(key, value), {"rateLimitMaxWaitSeconds": 7}), indent=1)
    path = house.in_user(text)
    loaded = house.load()
    (problem,) = loaded.problems
    assert (problem.source, problem.key) == (str(path), key)
    assert problem.message.endswith(got)
    line = text.splitlines()[(problem.line or 0) - 1]
    assert f'"{key.rsplit(".", maxsplit=1)[-1]}"' in line
    assert problem.column == len(line) - len(line.lstrip()) + 1
    assert loaded.config.rate_limit_max_wait == 7
    assert loaded.config.welcome_message == "kept"
    assert set(loaded.config.providers["kept"].models) == {"kept"}


def test_a_wrong_value_leaves_that_of_an_earlier_source(house):
    house.options = {"defaultModel": "a/b", "providers": {"my.p": {"url": "http://a"}}}
    house.in_user({"defaultModel": 3, "providers": {"my.p": {"url": [], "key": "x"}}})
    loaded = house.load()
    keys = [problem.key for problem in loaded.problems]
    assert keys == ['providers."my.p".url', "defaultModel"]
    assert loaded.config.default_model == "a/b"
    assert loaded.config.providers["my.p"].url == "http://a"
    assert loaded.config.providers["my.p"].key == Secret("x")


def test_a_broken_source_is_named_and_the_rest_counts(house):
    house.options = {"defaultModel": "options/m"}
    house.environ["ECA_CONFIG"] = '{"a": 1,\n "b" }'
    path = house.in_root(0, "[]")
    house.in_root(1, {"chat": {"title": False}})
    loaded = house.load()
    variable, file = loaded.problems
    assert (variable.source, variable.line, variable.column) == ("ECA_CONFIG", 2, 6)
    assert variable.message.endswith("not the path of a file)")
    assert (file.source, file.key) == (str(path), None)
    states = [source.state for source in loaded.sources]
    assert states == ["used", "broken", "absent", "broken", "used"]
    assert loaded.config.default_model == "options/m"
    assert loaded.config.chat_title is False
    for options in ("text", 3, [1], True):
        house.options = options
        loaded = house.load()
        assert loaded.problems[0].source == "initializationOptions"
        assert loaded.sources[0].state == "broken"


@pytest.mark.parametrize(
    "content",
    [
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
    ],
    ids=range(14),
)
def test_no_key_shows_in_what_loading_gives(house, content):
    house.options = content
    house.environ["ECA_CONFIG"] = json.dumps(content)
    house.in_root(0, content)
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
    problems = load_alone(None, broken).problems
    assert not any("planted" in str(problem) for problem in problems)
    assert all(problem.source == "ECA_CONFIG" for problem in problems)


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
    assert isinstance(load_alone(options, json.dumps(variable)).config, Config)
