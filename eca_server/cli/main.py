"""The command line: `serve` (also `server`), `chat`, `doctor`, `trust`, and others.

Each command imports its modules when it runs, so that `--version` and `--help` answer at once. An
unknown option is reported on stderr with exit code 2, an unknown command with exit code 1, as by
the upstream server. Options may also precede the command.
"""

from __future__ import annotations

import argparse
import gc
import os
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from eca_server.cli.arguments import LEVEL_SPELLINGS, make_parser, make_serve_parser
from eca_server.printable import printable_lines
from eca_server.system.command_line import nearest, repair_streams, run_to_end
from eca_server.version import version

if TYPE_CHECKING:
    from eca_server.connection.features.host import Options

__all__ = ["run"]

_WITH_VALUE = (
    *("--config-file", "--log-level", "--protocol-revision", "--revision", "--model"),
    *("--out", "--port", "--replay", "--deadline"),
    *("--db-cache-path", "--workspace", "--chat-id", "--role", "--since", "--until"),
)

_SERVING = ("serve", "server")

_WITH_SERVER = ("acp", "tap")
"""The commands that take the command of a server after `--`."""

_TRY = "Try `eca-server --help`.\n"

_ELSEWHERE = {
    **dict.fromkeys(("login", "auth"), "a chat does it: try `eca-server chat /login`"),
    "logout": "a chat does it: try `eca-server chat /logout`",
    **dict.fromkeys(("model", "models"), "a chat lists them: try `eca-server chat /model`"),
    **dict.fromkeys(("run", "ask", "exec"), "try `eca-server chat MESSAGE`"),
    "mcp": "MCP servers are configured in `mcpServers`: see `eca-server doctor`",
    **dict.fromkeys(("log", "logs"), "the log goes to stderr: see `eca-server serve --help`"),
    **dict.fromkeys(
        ("update", "upgrade", "uninstall"), "pip, pipx or uv do it, as they installed it"
    ),
    "version": "try `eca-server --version`",
}
"""Commands of other tools, and where this one has what they do."""

_WELCOME = """\
ECA lets an editor chat with language models. Your editor starts this server; without
a terminal, `eca-server` alone serves it over stdin and stdout. From here, try:

  eca-server chat "Hello"   chat in the terminal, also without an API key
  eca-server doctor         check configuration, providers and keys
  eca-server config init    write a commented configuration file to begin with
  eca-server --help         all commands and options
"""


def run(arguments: Sequence[str]) -> int:
    """Run the command line, and return the exit code."""
    if not arguments and sys.stdin is not None and sys.stdin.isatty():
        sys.stderr.write(_WELCOME)  # a user at a terminal
        return 2
    command, remaining = _split_command(arguments)
    if command in _WITH_PARSERS:
        return _WITH_PARSERS[command](remaining)
    server: list[str] = []
    if command in _WITH_SERVER and "--" in remaining:
        dashes = remaining.index("--")
        remaining, server = remaining[:dashes], remaining[dashes + 1 :]
    is_server = command in _SERVING and not {"--version", "-h", "--help"} & set(remaining)
    if not is_server:
        repair_streams()

    def end() -> int:
        if "--version" in remaining:
            name = "eca" if Path(sys.argv[0]).stem == "eca" else "eca_server"
            sys.stdout.write(f"{name} {version()}\n")
            return 0
        if command not in _COMMANDS:
            near = nearest(command, (*_COMMANDS, *_WITH_PARSERS))
            if command in _ELSEWHERE:
                near = f"; {_ELSEWHERE[command]}"
            sys.stderr.write(f"eca-server: unknown command {command[:100]!r}{near}\n{_TRY}")
            return 1
        is_for_all = {"-h", "--help"} & set(remaining) and command not in arguments
        parser = make_serve_parser() if is_server else make_parser()
        options = parser.parse_args(remaining if is_for_all else [command, *remaining])
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
    chosen = logging.getLevelNamesMapping()[LEVEL_SPELLINGS.get(level, level).upper()]
    # The logs of libraries contain whole URLs with their queries.
    logging.basicConfig(level=max(chosen, logging.WARNING), handlers=[handler])
    for ours in ("eca_protocol", "eca_server"):
        logging.getLogger(ours).setLevel(chosen)
    sys.excepthook = _log_crash
    return Options(
        environ=os.environ,
        config_file=arguments.config_file,
        trusts_workspace=getattr(arguments, "trust_workspace", False),
        hide=lambda secrets: masking.hide(*secrets),
    )


def _log_crash(kind: type[BaseException], error: BaseException, *_: object) -> None:
    """Log an exception that ends the program, with the keys in its message masked."""
    import logging  # noqa: PLC0415 - see the module's docstring

    if issubclass(kind, KeyboardInterrupt):
        sys.__excepthook__(kind, error, error.__traceback__)
        return
    logging.getLogger("eca_server").critical("this is a bug; please report it", exc_info=error)


def _serve(arguments: argparse.Namespace) -> int:
    with _importing():
        import attrs  # noqa: PLC0415

        from eca_protocol.revisions import parse_revision  # noqa: PLC0415
        from eca_server.cli.stdio import serve_stdio  # noqa: PLC0415

        options = attrs.evolve(
            _options(arguments), keeps_chats=True, watch_seconds=1.5, discovers=True
        )
    if arguments.protocol_revision is not None:
        try:
            revision = parse_revision(arguments.protocol_revision)
        except ValueError as error:
            return _refuse("serve", f"--protocol-revision: {error}")
        options = attrs.evolve(options, revision=revision)
    return serve_stdio(options)


@contextmanager
def _importing() -> Iterator[None]:
    """Import modules: without garbage collection, which slows it, and without KeyboardInterrupt.

    An extension module that is being imported may crash on it, as orjson does.
    """
    interrupts = signal.getsignal(signal.SIGINT)
    if interrupts is signal.default_int_handler:
        signal.signal(signal.SIGINT, lambda *_: os._exit(130))
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()
        if interrupts is signal.default_int_handler:
            signal.signal(signal.SIGINT, interrupts)


def _acp(arguments: argparse.Namespace) -> int:
    if arguments.login:
        from eca_server.cli.terminal import ChatCommand, chat  # noqa: PLC0415

        return chat(_options(arguments), ChatCommand())
    with _importing():
        from eca_server.acp.cli import run  # noqa: PLC0415
    return run(lambda: _options(arguments), arguments.server)


def _chat(arguments: argparse.Namespace) -> int:
    with _importing():
        import attrs  # noqa: PLC0415

        from eca_server.cli.terminal import ChatCommand, chat  # noqa: PLC0415

        options = attrs.evolve(_options(arguments), keeps_chats=True, discovers=True)
    if arguments.config_file is not None and not arguments.config_file.is_file():
        return _refuse(
            "chat", f"--config-file: expected a file, got {str(arguments.config_file)!r}"
        )
    if arguments.message is not None and not arguments.message.strip():
        return _refuse("chat", "expected a message, got an empty one")
    command = ChatCommand(
        message=arguments.message,
        model=arguments.model,
        approves=arguments.approve,
        prints_json=arguments.json,
        resumed=arguments.resume,
    )
    return chat(options, command)


def _doctor(arguments: argparse.Namespace) -> int:
    with _importing():
        from eca_server.cli.terminal import doctor  # noqa: PLC0415

        options = _options(arguments)
    return doctor(options, online=arguments.online, prints_json=arguments.json)


def _config(arguments: argparse.Namespace) -> int:
    import json  # noqa: PLC0415

    if arguments.what == "init":
        from eca_server.cli.starter import write_starter  # noqa: PLC0415

        return write_starter(os.environ)
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
        return _refuse("schema", f"--revision: {error}")
    if arguments.typescript:
        sys.stdout.write(typescript(revision))
    else:
        sys.stdout.write(json.dumps(json_schema(revision), indent=2, ensure_ascii=False) + "\n")
    return 0


def _completion(arguments: argparse.Namespace) -> int:
    from eca_server.cli.completion import completion_script  # noqa: PLC0415

    sys.stdout.write(completion_script(arguments.shell))
    return 0


def _trust(arguments: argparse.Namespace) -> int:
    from eca_server.cli.trust import run_trust  # noqa: PLC0415

    return run_trust(arguments.action, arguments.folder, is_agreed=arguments.yes)


def _read_chat(arguments: argparse.Namespace) -> int:
    from eca_server.cli.read_chat import Selection, parse_time, read_chat  # noqa: PLC0415

    if arguments.db_cache_path is None and not arguments.workspace:
        return _refuse("read-chat", "expected --workspace PATH or --db-cache-path PATH")
    if arguments.role is not None and arguments.chat_id is None:
        return _refuse("read-chat", "--role requires --chat-id, since chats have no role")
    bounds = []
    for name in ("since", "until"):
        text = getattr(arguments, name)
        try:
            bounds.append(None if text is None else parse_time(text))
        except ValueError:
            return _refuse(
                "read-chat",
                f"--{name}: expected a time such as 2h, 30m, 1d, 2025-01-01 or "
                f"2025-01-01T00:00:00Z, got {text!r}",
            )
    selection = Selection(arguments.chat_id, arguments.role, *bounds)
    return read_chat(os.environ, arguments.db_cache_path, arguments.workspace, selection)


def _link(arguments: argparse.Namespace) -> int:
    from eca_server.cli.link import change_link  # noqa: PLC0415

    return change_link(Path(sys.argv[0]), removes=arguments.remove)


def _tap(arguments: argparse.Namespace) -> int:
    from eca_server.workbench.tap import replay, tap_stdio  # noqa: PLC0415

    if arguments.replay is not None:
        return replay(arguments.replay, arguments.server, deadline=arguments.deadline)
    if not arguments.server:
        return _refuse("tap", "expected `-- COMMAND` with the command that starts a server")
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


def _refuse(command: str, why: str) -> int:
    program = f"eca-server {command}"
    sys.stderr.write(f"{program}: {printable_lines(why)}\nTry `{program} --help`.\n")
    return 2


_WITH_PARSERS = {"conformance": _conformance, "ecp": _ecp, "inspect": _inspect}
"""The commands with parsers of their own."""

_COMMANDS = {
    "serve": _serve,
    "server": _serve,
    "chat": _chat,
    "acp": _acp,
    "doctor": _doctor,
    "config": _config,
    "completion": _completion,
    "schema": _schema,
    "trust": _trust,
    "read-chat": _read_chat,
    "link": _link,
    "tap": _tap,
}
