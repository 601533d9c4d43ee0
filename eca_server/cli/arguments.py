"""The parser of `eca-server`, with the help of its commands."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from eca_server.system.command_line import Page, Parser, add_command, option, port, seconds

if TYPE_CHECKING:
    _Commands: TypeAlias = argparse._SubParsersAction[Parser]

_DESCRIPTION = """\
ECA (Editor Code Assistant): lets an editor chat with language models.

Your editor starts `eca-server serve` (or `eca-server` alone) and speaks the ECA
protocol with it over stdin and stdout.
"""

_EPILOG = """\
Examples:
  # Chat without an editor or an API key
  $ eca-server chat "Hello"

  # Write a configuration to begin with, and check it
  $ eca-server config init
  $ eca-server doctor

Configuration: ~/.config/eca/config.json, then .eca/config.json in the workspace,
or --config-file in place of both. The variable ECA_CONFIG may hold JSON, too.
API keys come from the configuration or from variables like OPENAI_API_KEY. A
folder's own settings that could run programs have no effect until you accept them
(`eca-server trust --help`). Logs go to stderr.

Exit codes: 0 success, 1 failure or unknown command, 2 wrong usage, above 128
ended by a signal.

`eca-server COMMAND --help` prints the options and examples of a command.
"""

_SERVE = Page(
    "serve an editor over stdin and stdout (started by editors)",
    """\
Serve one editor over stdin and stdout until it sends `exit` or closes its end.
The working directory does not matter: the editor sends its workspace.
""",
    """\
Examples:
  # The command for the settings of an editor
  $ eca-server serve

  # The same with a log in a file
  $ eca-server serve --verbose 2> eca.log

Exit codes: 0 after `shutdown` or the end of the input, 1 after `exit` alone or an
error, 2 wrong usage, above 128 ended by a signal.
""",
)

_CHAT = Page(
    "chat in the terminal",
    """\
Print the answer to one message as it arrives. Without a message, hold a
conversation: each line is a prompt. Ctrl-C stops the answer, a second one exits.
With a message, the text of a pipe, socket or file at stdin is its context. Errors and
progress go to stderr. Chats are stored, and can be resumed here or in an editor.

A terminal gets line editing, history, completion, Markdown and colours if the extra
is installed: pip install 'eca-protocol[terminal]'.
With --json each line is the params of one `chat/contentReceived` of the protocol.
""",
    """\
Examples:
  # Ask one question
  $ eca-server chat "Hello"

  # Ask about the output of a program
  $ git diff | eca-server chat "Review this change"

  # Continue the latest chat of this folder
  $ eca-server chat --resume

Exit codes: 0 answered, 1 failed, or the configuration has errors, 2 wrong usage,
130 stopped by Ctrl-C.
""",
)

_DOCTOR = Page(
    "check configuration, providers and keys",
    """\
Report the configuration files, providers and keys in use (the name of a key's
variable, never its value), and test the built-in model. With --online, also send
each provider the cheapest request that tests its URL and key.
""",
    """\
Examples:
  $ eca-server doctor
  $ eca-server doctor --json

Exit codes: 0 the configuration works, 1 it has errors, or a provider failed with
--online, 2 wrong usage.
""",
)

_CONFIG = Page(
    "write a configuration file to begin with, or print its JSON Schema",
    """\
`init` writes a commented configuration file to begin with, and never replaces an
existing one. `schema` prints the JSON Schema of the configuration file, with which
an editor can check and complete it.
""",
    """\
Examples:
  $ eca-server config init
  $ eca-server config schema > eca.schema.json

Exit codes: 0 success, 1 the file exists or cannot be written, 2 wrong usage.
""",
)

_COMPLETION = Page(
    "print a script that completes commands and options in a shell",
    """\
Print a script that completes commands and options of `eca-server` and `ecp` in your
shell. It starts no program.
""",
    """\
Examples:
  # bash: for this session; add the line to ~/.bashrc for all
  $ source <(eca-server completion bash)

  # zsh: add the same line, with zsh, to ~/.zshrc, after compinit
  # fish: for all sessions
  $ eca-server completion fish > ~/.config/fish/completions/eca-server.fish

Exit codes: 0 success, 2 wrong usage.
""",
)

_SCHEMA = Page(
    "print the protocol's messages as JSON Schema or TypeScript",
    """\
Print every message of the protocol as one JSON Schema (2020-12), or as
TypeScript. It describes valid messages of that edition; the deviations that
this server also accepts are not in it.
""",
    """\
Examples:
  $ eca-server schema > eca.schema.json
  $ eca-server schema --revision current --typescript > eca.d.ts

Exit codes: 0 success, 2 wrong usage.
""",
)

_ACP = Page(
    "serve an editor that speaks ACP (Zed, JetBrains)",
    """\
Serve an editor that speaks the Agent Client Protocol (ACP), over stdin and stdout.
Each session has an ECA server of its own: this one, or the one that COMMAND starts.
""",
    """\
Examples:
  # The command for the settings of an editor
  $ eca-server acp

  # The same with a different ECA server
  $ eca-server acp -- eca-server serve

Exit codes: 0 the editor has left, 1 failed, 2 wrong usage, above 128 ended by a
signal.
""",
)

_TRUST = Page(
    "accept or list the settings of folders",
    """\
A folder's own settings that can run programs, send your data or skip your
approval have no effect until you accept them, in the editor or here. `add` prints
the waiting settings of DIR and asks; `list` prints the folders you decided about,
or with DIR the waiting settings in it; `remove` deletes every decision about DIR.
A decision holds for exactly this folder, not for its parents or subfolders.
""",
    """\
Examples:
  # Print the waiting settings of this folder
  $ eca-server trust list .

  # Accept them without a question, and take that back
  $ eca-server trust add . --yes
  $ eca-server trust remove .

Exit codes: 0 success, 1 declined, no decision, or it could not be stored, 2 wrong
usage, or no terminal to ask.
""",
)

_READ_CHAT = Page(
    "print stored chats as lines of JSON",
    """\
Print stored chats as lines of JSON, as upstream's `eca read-chat` does, the latest
first; with --chat-id, the messages of one chat. Times are relative (30m, 2h, 1d),
dates, or ISO 8601 in UTC. The file of chats is ~/.local/share/eca-python/chats.sqlite.
""",
    """\
Examples:
  # The chats of this folder
  $ eca-server read-chat --workspace .

  # Those of the last day
  $ eca-server read-chat --workspace . --since 1d

Exit codes: 0 success, 1 no such chat or file, 2 wrong usage.
""",
)

_LINK = Page(
    "put the command `eca` beside this one",
    """\
Put the command `eca` beside this program, so that an editor's plugin that starts
`eca server` finds this server. An existing `eca` stays as it is, except for a link
of ours. With --remove, remove that link.
""",
    """\
Examples:
  $ eca-server link
  $ eca-server link --remove

Exit codes: 0 success, 1 another `eca` exists, or it cannot be written, 2 wrong usage.
""",
)

_TAP = Page(
    "record the messages between an editor and a server",
    """\
Record the messages between an editor and the server that COMMAND starts, in a
file that only you can read. Messages pass unchanged and without delay; secrets
are masked in the file. With --replay, replay a recording: the editor's side to
the server that COMMAND starts, or without COMMAND the server's side to the
editor that starts this command.
""",
    """\
Examples:
  # Record, as the command in the settings of an editor
  $ eca-server tap --out talk.jsonl -- eca-server serve

  # Replay the editor's side of the recording
  $ eca-server tap --replay talk.jsonl -- eca-server serve

Exit codes: those of the server; of a replay 0 success, 1 the other side did not
answer as recorded, 2 wrong usage or an unreadable recording.
""",
)

_LEVELS = ("error", "warning", "info", "debug")
LEVEL_SPELLINGS = {"warn": "warning"}


def make_parser() -> Parser:
    """Make the parser, with each command that has no parser of its own."""
    parser = Parser(
        prog="eca-server",
        description=_DESCRIPTION,
        epilog=_EPILOG,
    )
    option(parser, "--version", "print the version and exit")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", parser_class=Parser)
    _add_serve(commands)
    _add_chat(commands)
    doctor = add_command(commands, "doctor", _DOCTOR)
    option(doctor, "--online", "also send each provider a request; exit code 1 if one fails")
    option(doctor, "--json", "print the result as JSON")
    _add_common(doctor)
    _add_schemas(commands)
    completion = add_command(commands, "completion", _COMPLETION)
    completion.add_argument("shell", choices=("bash", "zsh", "fish"), help="your shell")
    _add_trust(commands)
    _add_read_chat(commands)
    link = add_command(commands, "link", _LINK)
    option(link, "--remove", "remove the link")
    _add_tap(commands)
    _add_acp(commands)
    commands.add_parser("inspect", help="show a recording of tap and its protocol errors")
    commands.add_parser("conformance", help="test whether a server conforms to the protocol")
    commands.add_parser("ecp", help="evaluate agents (the same as the command `ecp`)")
    return parser


def _add_serve(commands: _Commands) -> None:
    same = _SERVE._replace(summary="the same as serve")
    for name, page in (("serve", _SERVE), ("server", same)):
        serve = add_command(commands, name, page)
        _add_common(serve)
        _add_trust_flag(serve)
        option(
            serve,
            "--protocol-revision EDITION",
            "use this edition of the protocol instead of detecting it (2025-06, 2025-09, "
            "2025-10 or current)",
        )


def _add_acp(commands: _Commands) -> None:
    usage = (
        "eca-server acp [-h] [--login] [--config-file FILE] [--trust-workspace]\n"
        "    [--log-level LEVEL] [--verbose] [-- COMMAND ...]"
    )
    acp = add_command(commands, "acp", _ACP, usage=usage)
    _add_common(acp)
    _add_trust_flag(acp)
    option(acp, "--login", "chat in the terminal, to type /login")


def _add_chat(commands: _Commands) -> None:
    chat = add_command(commands, "chat", _CHAT)
    chat.surplus_hint = ": put the whole message in quotes"
    chat.add_argument("message", nargs="?", help="one prompt (default: hold a conversation)")
    option(chat, "--model PROVIDER/MODEL", "the model (default: the configured one)")
    option(chat, "--approve", "approve every tool call that needs approval")
    option(
        chat,
        "--resume ID",
        "continue the chat with this id, or without one the latest of this folder; a message "
        "goes before this option",
        nargs="?",
        const="",
    )
    option(chat, "--json", "print each content of the answer as a line of JSON")
    _add_common(chat)
    _add_trust_flag(chat)


def _add_schemas(commands: _Commands) -> None:
    config = add_command(commands, "config", _CONFIG)
    config.add_argument(
        "what", choices=("init", "schema"), metavar="init|schema", help="what to do"
    )
    schema = add_command(commands, "schema", _SCHEMA)
    option(
        schema,
        "--revision EDITION",
        "the edition: 2025-06, 2025-09, 2025-10 or current (default: 2025-10)",
        default="2025-10",
    )
    option(schema, "--typescript", "print TypeScript instead of JSON Schema")


def _add_trust(commands: _Commands) -> None:
    trust = add_command(commands, "trust", _TRUST)
    actions = trust.add_subparsers(
        dest="action", metavar="add|list|remove", required=True, parser_class=Parser
    )
    for action, hint, example, codes in (
        (
            "add",
            "show a folder's waiting settings and accept them",
            "add . --yes",
            "0 trusted, 1 declined or not stored, 2 wrong usage, or no terminal to ask",
        ),
        (
            "list",
            "list the folders you decided about, or a folder's waiting settings",
            "list",
            "0 success, 2 wrong usage",
        ),
        (
            "remove",
            "delete every decision about a folder",
            "remove .",
            "0 success, 1 no decision, or not stored, 2 wrong usage",
        ),
    ):
        more = f"Examples:\n  $ eca-server trust {example}\n\nExit codes: {codes}.\n"
        parser = add_command(actions, action, Page(hint, f"{hint.capitalize()}.", more))
        nargs = "?" if action == "list" else None
        parser.add_argument("folder", metavar="DIR", type=Path, nargs=nargs, help="the folder")
        parser.set_defaults(yes=False)
        if action == "add":
            option(parser, "--yes", "accept without asking (for scripts)")


def _add_read_chat(commands: _Commands) -> None:
    read = add_command(
        commands,
        "read-chat",
        _READ_CHAT,
        usage="eca-server read-chat [-h] (--db-cache-path PATH | --workspace PATH)\n"
        "    [--chat-id ID [--role ROLE]] [--since DATE] [--until DATE]",
    )
    source = read.add_mutually_exclusive_group()
    option(source, "--db-cache-path PATH", "the file of chats, or its directory", type=Path)
    option(
        source,
        "--workspace PATH",
        "a folder of the chats' workspace; repeat for more",
        action="append",
        type=Path,
        default=[],
    )
    option(read, "--chat-id ID", "print the messages of this chat")
    option(
        read, "--role ROLE", "with --chat-id: only messages of this role, such as user or tool_call"
    )
    option(read, "--since DATE", "from this time on")
    option(read, "--until DATE", "before this time")


def make_serve_parser() -> Parser:
    """Make the parser with the commands `serve` and `server` alone: a start needs no other."""
    parser = Parser(prog="eca-server")
    _add_serve(parser.add_subparsers(dest="command", parser_class=Parser))
    return parser


def _add_trust_flag(parser: argparse.ArgumentParser) -> None:
    option(
        parser,
        "--trust-workspace",
        "trust the opened folders for this session; settings that use your variables or "
        "files still wait",
    )


def _add_tap(commands: _Commands) -> None:
    tap = add_command(
        commands,
        "tap",
        _TAP,
        usage="eca-server tap [-h] [--out FILE | --replay FILE] [--unmasked]\n"
        "    [--deadline SECONDS] [--inspect] [--port N] [--no-open] [-- COMMAND ...]",
    )
    either = tap.add_mutually_exclusive_group()
    option(
        either,
        "--out FILE",
        "record into this file, or FILE-2 and so on if it exists (default: a new file in "
        "~/.local/share/eca-python/transcripts)",
        type=Path,
    )
    option(either, "--replay FILE", "replay a recording", type=Path)
    option(tap, "--unmasked", "do not mask secrets")
    option(
        tap,
        "--deadline SECONDS",
        "how long --replay waits for the other side (default: 30)",
        type=seconds,
        default=30.0,
    )
    option(tap, "--inspect", "show the recording live, as `inspect` does")
    option(
        tap,
        "--port N",
        "the port of the page of --inspect (default: a free one)",
        type=port,
        default=0,
    )
    option(tap, "--no-open", "do not open a browser for --inspect")


def _add_common(parser: argparse.ArgumentParser) -> None:
    option(
        parser,
        "--config-file FILE",
        "use this file instead of your and the workspace's configuration",
        type=Path,
    )
    option(
        parser,
        "--log-level LEVEL",
        f"{', '.join(_LEVELS)} (default: warning); the log goes to stderr",
        choices=(*_LEVELS, *LEVEL_SPELLINGS),
        default="warning",
    )
    option(parser, "--verbose", "the same as --log-level debug")
    option(parser, "--version", argparse.SUPPRESS)
