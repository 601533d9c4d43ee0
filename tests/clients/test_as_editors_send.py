"""Messages of real editors, byte for byte, and what their users see of the answers."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from eca_protocol.testing.provider import provider_in_thread, reply
from tests.clients.conftest import Arrive
from tests.clients.editors import EMACS, NEOVIM, VSCODE, answer, configured, send
from tests.eca_server.stranger import Stranger, content_of, text_of


def updates(server: Stranger) -> list[Any]:
    """Return the chat settings of each `config/updated` so far."""
    return [
        update["params"]["chat"]
        for update in server.received
        if update.get("method") == "config/updated"
    ]


@pytest.mark.parametrize(("hello", "name"), [(VSCODE, "a%3Ab"), (EMACS, "a%%3Ab")])
def test_a_message_is_a_format_for_emacs_only(arrive, hello, name):
    """It passes the text to `format`, and an error there loses the rest of its read."""
    server = arrive(hello)
    send(server, b'{"jsonrpc":"2.0","method":"mcp/startServer","params":{"name":"a%3Ab"}}')
    server.until(lambda m: m.get("method") == "$/showMessage")
    assert f"'{name}'" in server.received[-1]["params"]["message"]


@pytest.mark.requirement("W-20b")
def test_neovim_shows_the_answer_below_a_prompt_from_its_queue(arrive):
    server = arrive(NEOVIM)
    for text in ("say one\nwait 0.3", "say two"):
        server.send_prompt(text, model="simulator/script")
    shown = [*server.expect_finished(), *server.expect_finished()]
    assert text_of(shown, "user", "assistant") == "say one\nwait 0.3\nonesay two\ntwo"


@pytest.mark.requirement("W-3f")
def test_vs_codes_popup_lists_files_beside_a_bare_cursor(arrive, tmp_path):
    project = tmp_path / "project"
    (project / "app.py").write_text("x = 1\n")
    server = arrive(VSCODE)
    query = b"""{"jsonrpc":"2.0","id":7,"method":"chat/queryContext","params":{"query":"app",\
"contexts":[{"type":"cursor"}]}}"""
    listed = answer(server, query)
    assert listed["result"]["contexts"] == [{"type": "file", "path": str(project / "app.py")}]
    assert not [message for message in server.received if message.get("method") == "$/showMessage"]


def test_a_prompt_with_a_bare_cursor_is_answered_with_a_note(arrive):
    server = arrive(VSCODE)
    prompt = b"""{"jsonrpc":"2.0","id":8,"method":"chat/prompt","params":{"chatId":"c",\
"message":"say here","model":"simulator/script","agent":"agent","contexts":[{"type":"cursor"},\
{"type":"file","path":null}]}}"""
    assert answer(server, prompt)["result"]["status"] == "prompting"
    server.expect_finished()
    assert text_of(server.received) == "\n\nhere"
    for name in ("cursor", "file"):
        note = f"A context of type '{name}' was left out: it is incomplete."
        assert note in text_of(server.received, "system")


@pytest.mark.requirement("W-3g")
def test_emacs_reads_and_ends_a_job_by_its_own_key(arrive):
    allowed = json.dumps({"toolCall": {"approval": {"byDefault": "allow"}}})
    server = arrive(EMACS, {"ECA_CONFIG": allowed})
    arguments = json.dumps({"command": "echo hello; sleep 60", "background": "a job"})
    server.prompt(f"call eca_shell_command {arguments}", chat="c")
    server.expect_finished()
    (job,) = server.result("jobs/list")["jobs"]
    identity = json.dumps(job["id"]).encode()
    read = (
        b'{"jsonrpc":"2.0","method":"jobs/readOutput","id":70,"params":{"job-id":%b}}\n' % identity
    )
    assert "result" in answer(server, read)
    kill = b'{"jsonrpc":"2.0","method":"jobs/kill","id":71,"params":{"job-id":%b}}\n' % identity
    assert answer(server, kill)["result"] == {"killed": True}


@pytest.mark.requirement("W-3h")
def test_a_capability_given_as_an_object_counts_as_true(arrive):
    hello = VSCODE.replace(b'"chat":true', b'"chat":{}').replace(b'"rewrite":true', b'"rewrite":{}')
    assert updates(arrive(hello))[0]["variants"] is not None


@pytest.mark.requirement("W-21b")
def test_a_provider_in_camel_case_is_the_one_that_is_called_otherwise(arrive):
    with provider_in_thread(otherwise=reply("Hello")) as provider:
        mine = {"url": provider.url, "fetchModels": False, "models": {"m": {}}}
        options = b'"initializationOptions":{"defaultModel":"myProvider/m","providers":%b}'
        key = b'{"myProvider":{"key":"sk-planted-0123456789"}}'
        hello = VSCODE.replace(b'"initializationOptions":{}', options % key)
        server = arrive(hello, configured(providers={"my-provider": mine}))
        offered = updates(server)[0]
        assert offered["selectModel"] == "my-provider/m"
        assert not [name for name in offered["models"] if name.startswith("myProvider/")]
        for name in ("my-provider/m", "myProvider/m"):
            server.prompt("hi", model=name)
            assert "Hello" in text_of(server.expect_finished())
        assert {each.headers["authorization"] for each in provider.requests} == {
            "Bearer sk-planted-0123456789"
        }


def contents(messages: Iterable[Any], kind: str) -> list[Any]:
    """The contents of that type."""
    return [content_of(each) for each in messages if content_of(each).get("type") == kind]


PROMPT = b"""{"jsonrpc":"2.0","id":%d,"method":"chat/prompt","params":{"chatId":"c",\
"message":%b,"model":"simulator/script","agent":"agent","contexts":[]}}"""


@pytest.mark.requirement("W-27c", "W-27e", "W-27f", "W-27g")
def test_the_gauge_shows_what_the_last_request_took_of_the_context(arrive):
    server = arrive(VSCODE)

    def turn(number: int, *lines: str) -> list[Any]:
        answer(server, PROMPT % (number, json.dumps("\n".join(lines)).encode()))
        return server.expect_finished()

    tree = 'call eca_directory_tree {"path": "."}'
    messages = turn(1, "usage 40000 2500", tree, "usage 41000 60")
    kinds = [content_of(each).get("type") for each in messages]
    assert kinds.index("usage") < kinds.index("toolCalled")
    assert [each["sessionTokens"] for each in contents(messages, "usage")] == [42500, 41060]
    [after] = contents(turn(2, "usage 300 20"), "usage")
    assert after["sessionTokens"] == 320
    [compacted] = contents(turn(3, "/compact"), "usage")
    assert compacted["sessionTokens"] < 20_000
    for usage in [*contents(messages, "usage"), after, compacted]:
        assert usage["limit"] == {"context": 1_000_000}
        assert usage["contextBreakdown"]["usedTokens"] == usage["sessionTokens"]
        assert usage["contextBreakdown"]["contextLimit"] == 1_000_000


@pytest.mark.parametrize(
    ("hello", "sent"),
    [
        (EMACS, b'"request-id":0,"model":"simulator/echo","agent":"agent"'),
        (NEOVIM, b'"requestId":"1795949317"'),
    ],
    ids=["Emacs", "Neovim"],
)
def test_without_a_model_the_first_answer_of_a_chat_says_how_to_configure_one(
    arrive, tmp_path, hello, sent
):
    server = arrive(hello)
    prompt = b"""{"jsonrpc":"2.0","method":"chat/prompt","id":%d,"params":{"message":"hello",\
"chatId":"c","contexts":[],%b}}"""
    hints = []
    for number in (5, 6):
        answer(server, prompt % (number, sent))
        messages = server.expect_finished()
        assert text_of(messages).strip() == "hello"
        hints.append(text_of(messages, "system"))
    assert "No model is configured." in hints[0]
    assert "/login" in hints[0]
    assert str(tmp_path / ".config" / "eca" / "config.json") in hints[0]
    assert hints[1] == ""


def test_a_configuration_that_cannot_be_read_is_named_where_it_lacks(arrive, tmp_path):
    file = tmp_path / ".config" / "eca" / "config.json"
    file.parent.mkdir(parents=True)
    file.write_text('{"providers": {"a" {}}}')
    server = arrive(EMACS)
    answer(server, PROMPT.replace(b"/script", b"/echo") % (5, b'"hello"'))
    hint = text_of(server.expect_finished(), "system")
    assert hint.startswith("No model is configured, because the configuration cannot be read:")
    assert f"{file}:1:" in hint
    assert ": expected" in hint


@pytest.mark.parametrize(("hello", "shown"), [(EMACS, "\ufffd"), (VSCODE, "\0")])
def test_values_that_the_reader_of_emacs_refuses_are_replaced(arrive, hello, shown):
    server = arrive(hello)
    answer(server, PROMPT % (5, rb'"say \u0000a \\u0000 \\\u0000"'))
    assert text_of(server.expect_finished()).strip() == f"{shown}a \\u0000 \\{shown}"
    numbers = [2**63 - 1, 2**63, -(2**63), -(2**63) - 1, 10**30, 0.1234567890123456789, "9" * 30]
    call = json.dumps({"path": ".", "max_depth": numbers})
    answer(server, PROMPT % (6, json.dumps(f"call read_file {call}").encode()))
    [run] = contents(server.expect_finished(), "toolCallRun")
    big = [str(each) if shown != "\0" and isinstance(each, int) else each for each in numbers]
    assert run["arguments"]["max_depth"] == [numbers[0], big[1], numbers[2], *big[3:]]
    for id_ in (2**64, "\0"):
        query = {"jsonrpc": "2.0", "id": id_, "method": "chat/queryCommands", "params": {}}
        answer(server, json.dumps(query).encode())


@pytest.fixture
def app(arrive: Arrive, tmp_path: Path) -> Path:
    """A file of the project."""
    path = tmp_path / "project" / "app.py"
    path.write_text("def run():\n    pass\n\nrun()\n")
    return path


def asked_by_the_server(server: Stranger, method: str) -> Any:
    """The next request of that method."""
    return server.until(lambda each: each.get("method") == method)[-1]


@pytest.mark.requirement("W-42a")
@pytest.mark.parametrize(
    ("source", "line"), [(b'"python-flake8"', 4), (b'"eglot-flymake-backend"', 3)]
)
def test_what_emacs_finds_with_flycheck_is_shown_at_its_line(arrive, app, source, line):
    server = arrive(EMACS)
    server.prompt("call eca_editor_diagnostics {}", chat="c")
    request = asked_by_the_server(server, "editor/getDiagnostics")
    send(
        server,
        b"""{"jsonrpc":"2.0","id":%b,"result":{"diagnostics":[{"uri":"%b","severity":"error",\
"code":"E305","range":{"start":{"line":3,"character":0},"end":{"line":3,"character":0}},\
"source":%b,"message":"expected 2 blank lines"}]}}
"""
        % (json.dumps(request["id"]).encode(), app.as_uri().encode(), source),
    )
    [called] = contents(server.expect_finished(), "toolCalled")
    assert f"app.py:{line}:1: error: [E305]" in called["outputs"][0]["text"]


@pytest.mark.requirement("W-42e")
def test_emacs_is_asked_again_while_its_language_server_starts(arrive, app):
    server = arrive(EMACS)
    arguments = json.dumps({"path": app.name, "line": 4, "symbol": "run"})
    server.prompt(f"call eca_editor_definition {arguments}", chat="c")
    request = asked_by_the_server(server, "editor/getDefinition")
    identity = json.dumps(request["id"]).encode()
    send(server, b'{"jsonrpc":"2.0","id":%b,"result":{"status":"starting"}}\n' % identity)
    again = asked_by_the_server(server, "editor/getDefinition")
    assert again["params"] == request["params"]
    send(
        server,
        b"""{"jsonrpc":"2.0","id":%b,"result":{"status":"success","locations":[{"uri":"%b",\
"range":{"start":{"line":1,"character":5},"end":{"line":1,"character":8}}}]}}
"""
        % (json.dumps(again["id"]).encode(), request["params"]["uri"].encode()),
    )
    [called] = contents(server.expect_finished(), "toolCalled")
    assert "app.py:1:5: def run():" in called["outputs"][0]["text"]


def thinking(url: str) -> dict[str, str]:
    """A model with variants, one without, and an agent with a model and a variant of its own."""
    models = {
        "deep": {"variants": {"high": {"reasoning_effort": "high"}, "low": {"a": 1}}},
        "plain": {},
    }
    mine = {"url": url, "fetchModels": False, "key": "sk-planted-0123456789", "models": models}
    agents = {"sage": {"mode": "primary", "defaultModel": "p/deep", "variant": "high"}}
    return configured(
        providers={"p": mine}, defaultModel="p/plain", agent=agents, chat={"title": False}
    )


def next_update(server: Stranger) -> Any:
    """The params of the next `config/updated`."""
    return server.until(lambda each: each.get("method") == "config/updated")[-1]["params"]


@pytest.mark.requirement("W-11h", "W-28b")
def test_a_variant_is_cleared_where_the_selected_model_has_none(arrive):
    with provider_in_thread(otherwise=reply("Hello")) as provider:
        server = arrive(EMACS, thinking(provider.url))
        first = updates(server)[0]
        assert (first["variants"], first["selectVariant"]) == ([], None)
        changed = b"""{"jsonrpc":"2.0","method":"chat/selectedModelChanged","params":{%b\
"model":"p/%b","variant":%b}}
"""
        for chat in (b"", b'"chatId":"c",'):
            send(server, changed % (chat, b"deep", b'"high"'))
            update = next_update(server)
            assert update["chat"] == {"variants": ["high", "low"], "selectVariant": "high"}
            send(server, changed % (chat, b"plain", b'"high"'))
            update = next_update(server)
            assert update["chat"] == {"variants": [], "selectVariant": None}
            assert update.get("chatId") == ("c" if chat else None)


def test_an_agents_own_model_and_variant_are_selected_in_a_chat_that_has_not_begun(arrive):
    with provider_in_thread(otherwise=reply("Hello")) as provider:
        server = arrive(VSCODE, thinking(provider.url))
        changed = b"""{"jsonrpc":"2.0","method":"chat/selectedAgentChanged","params":\
{"chatId":"%b","agent":"%b"}}"""
        own = {"selectModel": "p/deep", "variants": ["high", "low"], "selectVariant": "high"}
        send(server, changed % (b"c", b"sage"))
        assert next_update(server) == {"chatId": "c", "chat": own}
        server.result("chat/prompt", {"chatId": "c", "message": "hi"})
        server.expect_finished()
        body = provider.requests[0].body
        assert (body["model"], body["reasoning_effort"]) == ("deep", "high")
        send(server, changed % (b"c", b"plan"))  # it has begun, and keeps its model
        send(server, changed % (b"d", b"plan"))
        common = {"selectModel": "p/plain", "variants": [], "selectVariant": None}
        assert next_update(server) == {"chatId": "d", "chat": common}


@pytest.mark.requirement("W-44a")
def test_a_chat_whose_model_is_no_longer_listed_is_opened_without_it(arrive):
    with provider_in_thread(otherwise=reply("Hello")) as provider:
        server = arrive(VSCODE, thinking(provider.url))
        server.prompt("hi", chat="c", model="p/deep")
        server.expect_finished()
        assert server.leave() == 0
        mine = {"url": provider.url, "fetchModels": False, "models": {"plain": {}}}
        server = arrive(VSCODE, configured(providers={"p": mine}))
        opened = answer(
            server, b'{"jsonrpc":"2.0","id":9,"method":"chat/open","params":{"chatId":"c"}}'
        )
        selection = opened["result"]["selection"]
        assert (selection["model"], selection["variant"]) == (None, None)
        trust_updates = [each for each in updates(server) if "selectTrust" in each]
        assert [each["selectModel"] for each in trust_updates] == ["p/plain"]
