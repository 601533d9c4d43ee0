"""The command line: `serve` (also `server`), `chat`, `doctor`, `trust`, and others.

Each command imports what it needs when it runs, so that `--version` and `--help` answer at once.
What is unknown is refused on stderr with exit code 2; a command that is unknown, with the help and
exit code 1, as the upstream server does. Options may stand before the command, too.
"""

from __future__ import annotations

import argparse
import gc
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from eca_server.command_line import ended, mend_streams, port, seconds
from eca_server.printable import printable_lines
from eca_server.version import version

if TYPE_CHECKING:
    from eca_server.features import Options

__all__ = ["run"]

_DESCRIPTION = """\
ECA (Editor Code Assistant): lets an editor chat with language models.

Editors start `serve` (also without a command) and speak the ECA protocol with it
over stdin and stdout.
To try it without an editor and without a key: `eca-server chat "Hello"`.
"""

_EPILOG = """\
Configuration: ~/.config/eca/config.json, then .eca/config.json in the workspace
(or --config-file in place of both); ECA_CONFIG may hold JSON as well. Keys are
found in the configuration or in variables like OPENAI_API_KEY.
`eca-server doctor` says what was found. A folder's own settings that could run
programs count only once you accept them (`eca-server trust --help`). Logs go to stderr.

Exit codes: 0 well, 1 failed or no such command, 2 wrong usage, above 128 ended
by a signal.
"""

_SERVE = """\
Serve one editor over stdin and stdout until it says exit or closes its end. The
working directory does not matter: the editor names its workspace.
"""

_CHAT = """\
Print the answer to one message as it comes, or without a message hold a
conversation, a line a prompt. Ctrl-C stops the answer, a second one leaves.
"""

_DOCTOR = """\
Say which configuration files, providers and keys (by the variable's name, never
a value) were found, and try the embedded model. With --online each provider is
asked, too, by the cheapest request that shows whether its url and key are right.
"""

_CONFIG = """\
Print the JSON Schema of the configuration file, for an editor that checks it
while you write.
"""

_SCHEMA = """\
Print every message of the protocol, with what each method carries: as one JSON
Schema (2020-12), or as TypeScript. It says what may be written in that revision;
what is read leniently is not in it.
"""

_TRUST = """\
Settings of an opened folder that can run programs, send your data or skip your
approval count only once you accept them: in the editor, or here. `add` prints
what waits in DIR and asks; `list` names the folders with a decision, and with
DIR what waits in it; `remove` forgets every decision about DIR. The folder
itself is meant, none below or above it. Exit codes: 0 done, 1 declined, no such
decision, or it could not be stored, 2 wrong usage, or nobody to ask.
"""

_TAP = """\
Stand between an editor and the server that COMMAND starts, and keep what they say
in a file that only you may read. What passes is not changed or delayed; in the file
what looks like a secret is masked. With --replay a kept conversation is played once
more: the editor's side to the server that COMMAND starts, or without one the
server's side to whoever started us.
"""

_WITH_VALUE = (
    *("--config-file", "--log-level", "--protocol-revision", "--revision", "--model"),
    *("--out", "--port", "--replay", "--deadline"),
)

_SERVING = ("serve", "server")

_LEVELS = ("error", "warning", "info", "debug")
_SPELLINGS = {"warn": "warning"}


def run(arguments: Sequence[str]) -> int:
    """Run the command line; the exit code."""
    if not arguments and sys.stdin is not None and sys.stdin.isatty():
        _parser().print_help(sys.stderr)  # a person, who would wait for ever
        return 2
    command, others = _parted(arguments)
    if command in _WITH_PARSERS:
        return _WITH_PARSERS[command](others)
    server: list[str] = []
    if command == "tap" and "--" in others:
        dashes = others.index("--")
        others, server = others[:dashes], others[dashes + 1 :]
    is_server = command in _SERVING and not {"--version", "-h", "--help"} & set(others)
    if not is_server:
        mend_streams()

    def end() -> int:
        if "--version" in others:
            sys.stdout.write(f"eca_server {version()}\n")
            return 0
        if command not in _COMMANDS:
            sys.stderr.write(f"eca-server: there is no command {command[:100]!r}\n")
            _parser().print_help(sys.stderr)
            return 1
        is_for_all = {"-h", "--help"} & set(others) and command not in arguments
        options = _parser().parse_args(others if is_for_all else [command, *others])
        options.server = server
        return _COMMANDS[command](options)

    return ended("eca-server", end, is_server=is_server)


def _parted(arguments: Sequence[str]) -> tuple[str, list[str]]:
    """The command, `serve` if there is none, and what stands before and behind it."""
    is_value = False
    for index, word in enumerate(arguments):
        if not is_value and not word.startswith("-"):
            return word, [*arguments[:index], *arguments[index + 1 :]]
        is_value = not is_value and word in _WITH_VALUE
    return "serve", list(arguments)


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        sys.stderr.write(f"{self.prog}: {printable_lines(message)}\nTry `eca-server --help`.\n")
        raise SystemExit(2)


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="eca-server",
        description=_DESCRIPTION,
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="store_true", help="print the version and exit")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", parser_class=_Parser)
    for name, hint in (
        ("serve", "speak the protocol over stdin and stdout (what editors start)"),
        ("server", "the same, as editors spell it"),
    ):
        serve = commands.add_parser(name, help=hint, description=_SERVE, allow_abbrev=False)
        _add_common(serve)
        _add_trust_flag(serve)
        serve.add_argument(
            "--protocol-revision",
            metavar="REVISION",
            help="speak this edition whatever the client says (2025-06, 2025-09, 2025-10 "
            "or current)",
        )
    chat = commands.add_parser(
        "chat", help="chat in the terminal", description=_CHAT, allow_abbrev=False
    )
    chat.add_argument("message", nargs="?", help="one prompt; without it, a conversation")
    chat.add_argument("--model", metavar="PROVIDER/MODEL", help="default: as configured")
    _add_common(chat)
    _add_trust_flag(chat)
    doctor = commands.add_parser(
        "doctor",
        help="say what was found: configuration, providers, keys",
        description=_DOCTOR,
        allow_abbrev=False,
    )
    doctor.add_argument(
        "--online", action="store_true", help="ask each provider, too; exit code 1 if one fails"
    )
    _add_common(doctor)
    config = commands.add_parser(
        "config",
        help="about the configuration file",
        description=_CONFIG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    config.add_argument("what", choices=("schema",), metavar="schema", help="what to print")
    schema = commands.add_parser(
        "schema",
        help="the protocol's messages as JSON Schema or TypeScript",
        description=_SCHEMA,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    schema.add_argument(
        "--revision",
        default="2025-10",
        metavar="REVISION",
        help="2025-06, 2025-09, 2025-10 or current (default: 2025-10)",
    )
    schema.add_argument("--typescript", action="store_true", help="in place of JSON Schema")
    _add_trust(commands)
    _add_tap(commands)
    commands.add_parser("inspect", help="show a conversation that tap kept, and its faults")
    commands.add_parser("conformance", help="find where a server departs from the protocol")
    commands.add_parser("ecp", help="evaluate agents; the same as the command `ecp`")
    return parser


def _add_trust(commands: argparse._SubParsersAction[_Parser]) -> None:
    trust = commands.add_parser(
        "trust",
        help="which folders' own settings count",
        description=_TRUST,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    actions = trust.add_subparsers(
        dest="action", metavar="add|list|remove", required=True, parser_class=_Parser
    )
    for action, hint in (
        ("add", "accept what waits in a folder"),
        ("list", "the folders with a decision, or what waits in one"),
        ("remove", "forget every decision about a folder"),
    ):
        parser = actions.add_parser(action, help=hint, description=hint, allow_abbrev=False)
        nargs = "?" if action == "list" else None
        parser.add_argument("folder", metavar="DIR", type=Path, nargs=nargs, help="the folder")
        parser.set_defaults(yes=False)
        if action == "add":
            parser.add_argument("--yes", action="store_true", help="do not ask (for scripts)")


def _add_trust_flag(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--trust-workspace",
        action="store_true",
        help="let the opened folders' own settings count in this session, but for those that "
        "take variables or files of yours",
    )


def _add_tap(commands: argparse._SubParsersAction[_Parser]) -> None:
    tap = commands.add_parser(
        "tap",
        help="keep what an editor and a server say to each other",
        usage="eca-server tap [-h] [--out FILE | --replay FILE] [--unmasked] "
        "[--deadline SECONDS] [--inspect] [--port N] [--no-open] [-- COMMAND ...]",
        description=_TAP,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    either = tap.add_mutually_exclusive_group()
    either.add_argument(
        "--out",
        type=Path,
        metavar="FILE",
        help="where it is kept; if it is there, FILE-2 and so on (default: a new file below "
        "~/.local/share/eca-python/transcripts)",
    )
    either.add_argument("--replay", type=Path, metavar="FILE", help="play a kept conversation")
    tap.add_argument("--unmasked", action="store_true", help="keep secrets, too")
    tap.add_argument(
        "--deadline",
        type=seconds,
        default=30.0,
        metavar="SECONDS",
        help="how long a player waits for the other side (default: 30)",
    )
    tap.add_argument("--inspect", action="store_true", help="show it meanwhile, as `inspect` does")
    tap.add_argument(
        "--port", type=port, default=0, metavar="N", help="of that page (default: a free one)"
    )
    tap.add_argument("--no-open", action="store_true", help="open no browser with it")


def _add_common(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--config-file",
        type=Path,
        metavar="FILE",
        help="in place of the user's and the workspace's configuration",
    )
    parser.add_argument(
        "--log-level",
        choices=(*_LEVELS, *_SPELLINGS),
        default="warning",
        metavar="LEVEL",
        help=f"{', '.join(_LEVELS)}; the log goes to stderr",
    )
    parser.add_argument("--verbose", action="store_true", help="the same as --log-level debug")


def _options(arguments: argparse.Namespace) -> Options:
    import logging  # noqa: PLC0415 - see the module's docstring

    from eca_server.features import Options  # noqa: PLC0415
    from eca_server.log_handler import log_handler  # noqa: PLC0415
    from eca_server.secret import MaskingFilter  # noqa: PLC0415

    level = "debug" if arguments.verbose else arguments.log_level
    handler = log_handler(sys.stderr)
    handler.setFormatter(logging.Formatter("%(levelname)s %(name)s: %(message)s"))
    masking = MaskingFilter()
    handler.addFilter(masking)
    chosen = logging.getLevelNamesMapping()[_SPELLINGS.get(level, level).upper()]
    # What libraries log of a request holds the whole query of its URL.
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
    with _garbage_left_alone():
        import attrs  # noqa: PLC0415

        from eca_protocol.revisions import parse_revision  # noqa: PLC0415
        from eca_server.stdio import serve_stdio  # noqa: PLC0415

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
def _garbage_left_alone() -> Iterator[None]:
    """What is imported stays: looking for garbage among it would only slow the start."""
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()


def _chat(arguments: argparse.Namespace) -> int:
    from eca_server.terminal import chat  # noqa: PLC0415

    if arguments.config_file is not None and not arguments.config_file.is_file():
        return _refuse(f"--config-file: expected a file, got {str(arguments.config_file)!r}")
    return chat(_options(arguments), message=arguments.message, model=arguments.model)


def _doctor(arguments: argparse.Namespace) -> int:
    from eca_server.terminal import doctor  # noqa: PLC0415

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
    from eca_server.trust_command import run_trust  # noqa: PLC0415

    return run_trust(arguments.action, arguments.folder, is_agreed=arguments.yes)


def _tap(arguments: argparse.Namespace) -> int:
    from eca_server.tap import play_again, tap_stdio  # noqa: PLC0415

    if arguments.replay is not None:
        return play_again(arguments.replay, arguments.server, deadline=arguments.deadline)
    if not arguments.server:
        return _refuse("tap: expected `-- COMMAND` that starts a server")
    page = None
    if arguments.inspect:
        page = ["--port", str(arguments.port), *(["--no-open"] if arguments.no_open else [])]
    return tap_stdio(arguments.server, out=arguments.out, masked=not arguments.unmasked, page=page)


def _inspect(arguments: Sequence[str]) -> int:
    from eca_server.inspector.cli import run as run_inspect  # noqa: PLC0415

    return run_inspect(arguments)


def _ecp(arguments: Sequence[str]) -> int:
    from eca_server.ecp.cli import run as run_ecp  # noqa: PLC0415

    return run_ecp(arguments)


def _conformance(arguments: Sequence[str]) -> int:
    from eca_server.conformance.cli import run as run_conformance  # noqa: PLC0415

    mend_streams()
    return ended("eca-server conformance", lambda: run_conformance(arguments))


def _refuse(why: str) -> int:
    sys.stderr.write(f"eca-server: {printable_lines(why)}\n")
    return 2


_WITH_PARSERS = {"conformance": _conformance, "ecp": _ecp, "inspect": _inspect}
"""The commands that read their arguments themselves."""

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
