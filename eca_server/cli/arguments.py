"""The parser of `eca-server`, with the help of its commands."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from eca_server.system.command_line import Parser, port, seconds

if TYPE_CHECKING:
    _Commands: TypeAlias = argparse._SubParsersAction[Parser]

_DESCRIPTION = """\
ECA (Editor Code Assistant): lets an editor chat with language models.

Your editor starts `eca-server serve` (or `eca-server` alone) and speaks the ECA
protocol with it over stdin and stdout.
Try it without an editor or an API key: `eca-server chat "Hello"`.
"""

_EPILOG = """\
Configuration: ~/.config/eca/config.json, then .eca/config.json in the workspace,
or --config-file in place of both. The variable ECA_CONFIG may hold JSON, too.
API keys come from the configuration or from variables like OPENAI_API_KEY.
`eca-server doctor` checks the configuration. A folder's own settings that could
run programs have no effect until you accept them (`eca-server trust --help`).
Logs go to stderr.

Exit codes: 0 success, 1 failure or unknown command, 2 wrong usage, above 128
ended by a signal.
"""

_SERVE = """\
Serve one editor over stdin and stdout until it sends `exit` or closes its end.
The working directory does not matter: the editor sends its workspace.
"""

_CHAT = """\
Print the answer to one message as it arrives. Without a message, hold a
conversation: each line is a prompt. Ctrl-C stops the answer, a second one exits.
With a message, the text of a pipe or file at stdin is its context. Errors and
progress go to stderr.

Examples:
  # Ask one question
  $ eca-server chat "Hello"

  # Ask about the output of a program
  $ git diff | eca-server chat "Review this change"

Exit codes: 0 answered, 1 failed, or the configuration has errors, 2 wrong usage,
130 stopped by Ctrl-C.
"""

_DOCTOR = """\
Report the configuration files, providers and keys in use (the name of a key's
variable, never its value), and test the built-in model. With --online, also send
each provider the cheapest request that tests its URL and key.

Examples:
  $ eca-server doctor
  $ eca-server doctor --json

Exit codes: 0 the configuration works, 1 it has errors, or a provider failed with
--online, 2 wrong usage.
"""

_CONFIG = """\
`init` writes a commented configuration file to begin with, and never replaces an
existing one. `schema` prints the JSON Schema of the configuration file, with which
an editor can check and complete it.

Examples:
  $ eca-server config init
  $ eca-server config schema > eca.schema.json

Exit codes: 0 success, 1 the file exists or cannot be written, 2 wrong usage.
"""

_COMPLETION = """\
Print a script that completes commands and options of `eca-server` and `ecp` in your
shell. It starts no program.

Examples:
  # bash: for this session; add the line to ~/.bashrc for all
  $ source <(eca-server completion bash)

  # zsh: add the same line, with zsh, to ~/.zshrc, after compinit
  # fish: for all sessions
  $ eca-server completion fish > ~/.config/fish/completions/eca-server.fish
"""

_SCHEMA = """\
Print every message of the protocol as one JSON Schema (2020-12), or as
TypeScript. It describes valid messages of that revision; the deviations that
this server also accepts are not in it.
"""

_ACP = """\
Serve an editor that speaks the Agent Client Protocol (ACP), over stdin and stdout.
Each session has an ECA server of its own: this one, or the one that COMMAND starts.
"""

_TRUST = """\
A folder's own settings that can run programs, send your data or skip your
approval have no effect until you accept them, in the editor or here. `add` prints
the waiting settings of DIR and asks; `list` prints the folders you decided about,
or with DIR the waiting settings in it; `remove` deletes every decision about DIR.
A decision holds for exactly this folder, not for its parents or subfolders.

Exit codes: 0 success, 1 declined, no decision, or it could not be stored, 2 wrong
usage, or no terminal to ask.
"""

_TAP = """\
Record the messages between an editor and the server that COMMAND starts, in a
file that only you can read. Messages pass unchanged and without delay; secrets
are masked in the file. With --replay, replay a recording: the editor's side to
the server that COMMAND starts, or without COMMAND the server's side to the
editor that starts this command.
"""

_LEVELS = ("error", "warning", "info", "debug")
LEVEL_SPELLINGS = {"warn": "warning"}


def make_parser() -> Parser:
    """Make the parser, with each command that has no parser of its own."""
    parser = Parser(
        prog="eca-server",
        description=_DESCRIPTION,
        epilog=_EPILOG,
    )
    parser.add_argument("--version", action="store_true", help="print the version and exit")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", parser_class=Parser)
    _add_serve(commands)
    _add_chat(commands)
    doctor = _add_command(
        commands, "doctor", "check configuration, providers and keys", _DOCTOR, raw=True
    )
    doctor.add_argument(
        "--online",
        action="store_true",
        help="also send each provider a request; exit code 1 if one fails",
    )
    doctor.add_argument("--json", action="store_true", help="print the result as JSON")
    _add_common(doctor)
    _add_schemas(commands)
    hint = "print a script that completes commands and options in a shell"
    completion = _add_command(commands, "completion", hint, _COMPLETION, raw=True)
    completion.add_argument("shell", choices=("bash", "zsh", "fish"), help="your shell")
    _add_trust(commands)
    _add_tap(commands)
    _add_acp(commands)
    commands.add_parser("inspect", help="show a recording of tap and its protocol errors")
    commands.add_parser("conformance", help="test whether a server conforms to the protocol")
    commands.add_parser("ecp", help="evaluate agents (the same as the command `ecp`)")
    return parser


def _add_command(
    commands: _Commands, name: str, hint: str, description: str, *, raw: bool = False, **more: Any
) -> Parser:
    """Add a command; `raw` leaves the lines of its description as they are."""
    formatter = argparse.RawDescriptionHelpFormatter if raw else argparse.HelpFormatter
    return commands.add_parser(
        name,
        help=hint,
        description=description,
        formatter_class=formatter,
        allow_abbrev=False,
        **more,
    )


def _add_serve(commands: _Commands) -> None:
    for name, hint in (
        ("serve", "serve an editor over stdin and stdout (started by editors)"),
        ("server", "the same as serve"),
    ):
        serve = _add_command(commands, name, hint, _SERVE)
        _add_common(serve)
        _add_trust_flag(serve)
        serve.add_argument(
            "--protocol-revision",
            metavar="REVISION",
            help="use this revision of the protocol instead of detecting it (2025-06, 2025-09, "
            "2025-10 or current)",
        )


def _add_acp(commands: _Commands) -> None:
    acp = _add_command(commands, "acp", "serve an editor that speaks ACP (Zed, JetBrains)", _ACP)
    _add_common(acp)
    _add_trust_flag(acp)
    acp.add_argument("--login", action="store_true", help="chat in the terminal, to type /login")
    acp.add_argument("server", nargs="*", metavar="COMMAND", help="an ECA server to use, after --")


def _add_chat(commands: _Commands) -> None:
    chat = _add_command(commands, "chat", "chat in the terminal", _CHAT, raw=True)
    chat.add_argument("message", nargs="?", help="one prompt (default: hold a conversation)")
    chat.add_argument(
        "--model", metavar="PROVIDER/MODEL", help="the model (default: the configured one)"
    )
    chat.add_argument(
        "--approve", action="store_true", help="approve every tool call that needs approval"
    )
    _add_common(chat)
    _add_trust_flag(chat)


def _add_schemas(commands: _Commands) -> None:
    hint = "write a configuration file to begin with, or print its JSON Schema"
    config = _add_command(commands, "config", hint, _CONFIG, raw=True)
    config.add_argument(
        "what", choices=("init", "schema"), metavar="init|schema", help="what to do"
    )
    hint = "print the protocol's messages as JSON Schema or TypeScript"
    schema = _add_command(commands, "schema", hint, _SCHEMA, raw=True)
    schema.add_argument(
        "--revision",
        default="2025-10",
        metavar="REVISION",
        help="2025-06, 2025-09, 2025-10 or current (default: 2025-10)",
    )
    schema.add_argument(
        "--typescript", action="store_true", help="print TypeScript instead of JSON Schema"
    )


def _add_trust(commands: _Commands) -> None:
    hint = "accept or list the settings of folders"
    trust = _add_command(commands, "trust", hint, _TRUST, raw=True)
    actions = trust.add_subparsers(
        dest="action", metavar="add|list|remove", required=True, parser_class=Parser
    )
    for action, hint in (
        ("add", "show a folder's waiting settings and accept them"),
        ("list", "list the folders you decided about, or a folder's waiting settings"),
        ("remove", "delete every decision about a folder"),
    ):
        parser = _add_command(actions, action, hint, hint)
        nargs = "?" if action == "list" else None
        parser.add_argument("folder", metavar="DIR", type=Path, nargs=nargs, help="the folder")
        parser.set_defaults(yes=False)
        if action == "add":
            parser.add_argument(
                "--yes", action="store_true", help="accept without asking (for scripts)"
            )


def make_serve_parser() -> Parser:
    """Make the parser with the commands `serve` and `server` alone: a start needs no other."""
    parser = Parser(prog="eca-server")
    _add_serve(parser.add_subparsers(dest="command", parser_class=Parser))
    return parser


def _add_trust_flag(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--trust-workspace",
        action="store_true",
        help="trust the opened folders for this session; settings that use your variables or "
        "files still wait",
    )


def _add_tap(commands: _Commands) -> None:
    tap = _add_command(
        commands,
        "tap",
        "record the messages between an editor and a server",
        _TAP,
        raw=True,
        usage="eca-server tap [-h] [--out FILE | --replay FILE] [--unmasked] "
        "[--deadline SECONDS] [--inspect] [--port N] [--no-open] [-- COMMAND ...]",
    )
    either = tap.add_mutually_exclusive_group()
    either.add_argument(
        "--out",
        type=Path,
        metavar="FILE",
        help="record into this file, or FILE-2 and so on if it exists (default: a new file in "
        "~/.local/share/eca-python/transcripts)",
    )
    either.add_argument("--replay", type=Path, metavar="FILE", help="replay a recording")
    tap.add_argument("--unmasked", action="store_true", help="do not mask secrets")
    tap.add_argument(
        "--deadline",
        type=seconds,
        default=30.0,
        metavar="SECONDS",
        help="how long --replay waits for the other side (default: 30)",
    )
    tap.add_argument(
        "--inspect", action="store_true", help="show the recording live, as `inspect` does"
    )
    tap.add_argument(
        "--port",
        type=port,
        default=0,
        metavar="N",
        help="the port of the page of --inspect (default: a free one)",
    )
    tap.add_argument("--no-open", action="store_true", help="do not open a browser for --inspect")


def _add_common(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--config-file",
        type=Path,
        metavar="FILE",
        help="use this file instead of your and the workspace's configuration",
    )
    parser.add_argument(
        "--log-level",
        choices=(*_LEVELS, *LEVEL_SPELLINGS),
        default="warning",
        metavar="LEVEL",
        help=f"{', '.join(_LEVELS)} (default: warning); the log goes to stderr",
    )
    parser.add_argument("--verbose", action="store_true", help="the same as --log-level debug")
