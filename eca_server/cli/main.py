"""The command line: `serve` (also `server`), `chat`, `doctor`, `trust`, and others.

Each command imports its modules when it runs, so that `--version` and `--help` answer at once. An
unknown option is reported on stderr with exit code 2; an unknown command with the help and exit
code 1, as by the upstream server. Options may also precede the command.
"""

from __future__ import annotations

import argparse
import gc
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from eca_server.printable import printable_lines
from eca_server.system.command_line import Parser, port, repair_streams, run_to_end, seconds
from eca_server.version import version

if TYPE_CHECKING:
    from eca_server.connection.features.host import Options

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
"""

_DOCTOR = """\
Report the configuration files, providers and keys in use (the name of a key's
variable, never its value), and test the built-in model. With --online, also send
each provider the cheapest request that tests its URL and key.
"""

_CONFIG = """\
Print the JSON Schema of the configuration file, with which an editor can check
and complete it.
"""

_SCHEMA = """\
Print every message of the protocol as one JSON Schema (2020-12), or as
TypeScript. It describes valid messages of that revision; the deviations that
this server also accepts are not in it.
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

_WITH_VALUE = (
    *("--config-file", "--log-level", "--protocol-revision", "--revision", "--model"),
    *("--out", "--port", "--replay", "--deadline"),
)

_SERVING = ("serve", "server")

_LEVELS = ("error", "warning", "info", "debug")
_SPELLINGS = {"warn": "warning"}


def run(arguments: Sequence[str]) -> int:
    """Run the command line, and return the exit code."""
    if not arguments and sys.stdin is not None and sys.stdin.isatty():
        _parser().print_help(sys.stderr)  # a user at a terminal
        return 2
    command, remaining = _split_command(arguments)
    if command in _WITH_PARSERS:
        return _WITH_PARSERS[command](remaining)
    server: list[str] = []
    if command == "tap" and "--" in remaining:
        dashes = remaining.index("--")
        remaining, server = remaining[:dashes], remaining[dashes + 1 :]
    is_server = command in _SERVING and not {"--version", "-h", "--help"} & set(remaining)
    if not is_server:
        repair_streams()

    def end() -> int:
        if "--version" in remaining:
            sys.stdout.write(f"eca_server {version()}\n")
            return 0
        if command not in _COMMANDS:
            sys.stderr.write(f"eca-server: unknown command {command[:100]!r}\n")
            _parser().print_help(sys.stderr)
            return 1
        is_for_all = {"-h", "--help"} & set(remaining) and command not in arguments
        options = _parser().parse_args(remaining if is_for_all else [command, *remaining])
        options.server = server
        return _COMMANDS[command](options)

    return run_to_end("eca-server", end, is_server=is_server)


def _split_command(arguments: Sequence[str]) -> tuple[str, list[str]]:
    """Return the command, by default `serve`, and the arguments before and after it."""
    is_value = False
    for index, word in enumerate(arguments):
        if not is_value and not word.startswith("-"):
            return word, [*arguments[:index], *arguments[index + 1 :]]
        is_value = not is_value and word in _WITH_VALUE
    return "serve", list(arguments)


def _parser() -> argparse.ArgumentParser:
    parser = Parser(
        prog="eca-server",
        description=_DESCRIPTION,
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="store_true", help="print the version and exit")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", parser_class=Parser)
    _add_serve(commands)
    _add_chat(commands)
    doctor = _add_command(commands, "doctor", "check configuration, providers and keys", _DOCTOR)
    doctor.add_argument(
        "--online",
        action="store_true",
        help="also send each provider a request; exit code 1 if one fails",
    )
    _add_common(doctor)
    _add_schemas(commands)
    _add_trust(commands)
    _add_tap(commands)
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


def _add_chat(commands: _Commands) -> None:
    chat = _add_command(commands, "chat", "chat in the terminal", _CHAT)
    chat.add_argument("message", nargs="?", help="one prompt (default: hold a conversation)")
    chat.add_argument(
        "--model", metavar="PROVIDER/MODEL", help="the model (default: the configured one)"
    )
    _add_common(chat)
    _add_trust_flag(chat)


def _add_schemas(commands: _Commands) -> None:
    hint = "print the JSON Schema of the configuration file"
    config = _add_command(commands, "config", hint, _CONFIG, raw=True)
    config.add_argument("what", choices=("schema",), metavar="schema", help="what to print")
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
        choices=(*_LEVELS, *_SPELLINGS),
        default="warning",
        metavar="LEVEL",
        help=f"{', '.join(_LEVELS)} (default: warning); the log goes to stderr",
    )
    parser.add_argument("--verbose", action="store_true", help="the same as --log-level debug")


def _options(arguments: argparse.Namespace) -> Options:
    import logging  # noqa: PLC0415 - see the module's docstring

    from eca_server.connection.features.host import Options  # noqa: PLC0415
    from eca_server.secret import MaskingFilter  # noqa: PLC0415
    from eca_server.system.log_handler import log_handler  # noqa: PLC0415

    level = "debug" if arguments.verbose else arguments.log_level
    handler = log_handler(sys.stderr)
    handler.setFormatter(logging.Formatter("%(levelname)s %(name)s: %(message)s"))
    masking = MaskingFilter()
    handler.addFilter(masking)
    chosen = logging.getLevelNamesMapping()[_SPELLINGS.get(level, level).upper()]
    # The logs of libraries contain whole URLs with their queries.
    logging.basicConfig(level=max(chosen, logging.WARNING), handlers=[handler])
    for ours in ("eca_protocol", "eca_server"):
        logging.getLogger(ours).setLevel(chosen)
    return Options(
        environ=os.environ,
        config_file=arguments.config_file,
        trusts_workspace=getattr(arguments, "trust_workspace", False),
        hide=lambda secrets: masking.hide(*secrets),
    )


def _serve(arguments: argparse.Namespace) -> int:
    with _without_garbage_collection():
        import attrs  # noqa: PLC0415

        from eca_protocol.revisions import parse_revision  # noqa: PLC0415
        from eca_server.cli.stdio import serve_stdio  # noqa: PLC0415

        options = attrs.evolve(
            _options(arguments), keeps_chats=True, watch_seconds=0.5, discovers=True
        )
    if arguments.protocol_revision is not None:
        try:
            revision = parse_revision(arguments.protocol_revision)
        except ValueError as error:
            return _refuse(f"--protocol-revision: {error}")
        options = attrs.evolve(options, revision=revision)
    return serve_stdio(options)


@contextmanager
def _without_garbage_collection() -> Iterator[None]:
    """Disable garbage collection during imports, which only slows the start."""
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()


def _chat(arguments: argparse.Namespace) -> int:
    from eca_server.cli.terminal import chat  # noqa: PLC0415

    if arguments.config_file is not None and not arguments.config_file.is_file():
        return _refuse(f"--config-file: expected a file, got {str(arguments.config_file)!r}")
    return chat(_options(arguments), message=arguments.message, model=arguments.model)


def _doctor(arguments: argparse.Namespace) -> int:
    from eca_server.cli.terminal import doctor  # noqa: PLC0415

    return doctor(_options(arguments), online=arguments.online)


def _config(_: argparse.Namespace) -> int:
    import json  # noqa: PLC0415

    from eca_server.config.schema import config_schema  # noqa: PLC0415

    sys.stdout.write(json.dumps(config_schema(), indent=2, ensure_ascii=False) + "\n")
    return 0


def _schema(arguments: argparse.Namespace) -> int:
    import json  # noqa: PLC0415

    from eca_protocol.revisions import parse_revision  # noqa: PLC0415
    from eca_protocol.schema import json_schema, typescript  # noqa: PLC0415

    try:
        revision = parse_revision(arguments.revision)
    except ValueError as error:
        return _refuse(f"--revision: {error}")
    if arguments.typescript:
        sys.stdout.write(typescript(revision))
    else:
        sys.stdout.write(json.dumps(json_schema(revision), indent=2, ensure_ascii=False) + "\n")
    return 0


def _trust(arguments: argparse.Namespace) -> int:
    from eca_server.cli.trust import run_trust  # noqa: PLC0415

    return run_trust(arguments.action, arguments.folder, is_agreed=arguments.yes)


def _tap(arguments: argparse.Namespace) -> int:
    from eca_server.workbench.tap import replay, tap_stdio  # noqa: PLC0415

    if arguments.replay is not None:
        return replay(arguments.replay, arguments.server, deadline=arguments.deadline)
    if not arguments.server:
        return _refuse("tap: expected `-- COMMAND` with the command that starts a server")
    page = None
    if arguments.inspect:
        page = ["--port", str(arguments.port), *(["--no-open"] if arguments.no_open else [])]
    return tap_stdio(arguments.server, out=arguments.out, masked=not arguments.unmasked, page=page)


def _inspect(arguments: Sequence[str]) -> int:
    from eca_server.workbench.inspector.cli import run as run_inspect  # noqa: PLC0415

    return run_inspect(arguments)


def _ecp(arguments: Sequence[str]) -> int:
    from eca_server.ecp.cli import run as run_ecp  # noqa: PLC0415

    return run_ecp(arguments)


def _conformance(arguments: Sequence[str]) -> int:
    from eca_server.workbench.conformance.cli import run as run_conformance  # noqa: PLC0415

    repair_streams()
    return run_to_end("eca-server conformance", lambda: run_conformance(arguments))


def _refuse(why: str) -> int:
    sys.stderr.write(f"eca-server: {printable_lines(why)}\n")
    return 2


_WITH_PARSERS = {"conformance": _conformance, "ecp": _ecp, "inspect": _inspect}
"""The commands with parsers of their own."""

_COMMANDS = {
    "serve": _serve,
    "server": _serve,
    "chat": _chat,
    "doctor": _doctor,
    "config": _config,
    "schema": _schema,
    "trust": _trust,
    "tap": _tap,
}
