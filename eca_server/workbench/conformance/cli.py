"""The command line of `conformance`.

Exit codes: 0 conformant, 1 not conformant, 2 wrong usage, 3 the target cannot be started, 4 the
suite itself failed, 130 and 143 ended by a signal.
"""

from __future__ import annotations

import argparse
import sys
import traceback
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NoReturn, TypeVar

import attrs
import trio
from typing_extensions import override

from eca_protocol.errors import StartFailed
from eca_protocol.json import dumps
from eca_protocol.revisions import Revision, parse_revision
from eca_protocol.testing.conformance.acp.suite import AcpSuite
from eca_protocol.testing.conformance.cases import Case, is_named
from eca_protocol.testing.conformance.client.suite import ClientSuite
from eca_protocol.testing.conformance.judge import Suite
from eca_protocol.testing.conformance.personalities import PERSONALITIES, PLAIN
from eca_protocol.testing.conformance.run import Run, known_failures
from eca_protocol.testing.conformance.suite import SECONDS, ServerSuite, run_suite
from eca_protocol.testing.conformance.target import Target
from eca_protocol.testing.requirements import ALL_REQUIREMENTS
from eca_server.printable import printable_line, printable_lines
from eca_server.system.command_line import Parser, count, seconds, write_to_user
from eca_server.system.signals import run_until_a_signal
from eca_server.workbench.conformance.badge import render_badge
from eca_server.workbench.conformance.compare import Changes, compare, describe_changes
from eca_server.workbench.conformance.html import render_html
from eca_server.workbench.conformance.junit import render_junit
from eca_server.workbench.conformance.table import Progress, render_table
from eca_server.workbench.report_files import Outputs, OutputsInvalid

_DESCRIPTION = """\
Check a server's conformance to the ECA protocol. COMMAND starts the server, in any
language; the suite acts as its editor and its model, and judges each observable
requirement. With --client, COMMAND starts a client that acts without a user, such
as the test of an editor's plugin; the suite acts as its server.

The model listens at a loopback address. The server gets it in ECA_CONFIG, in
upstream's format, or in a file made from --config-template. In that file, in
COMMAND, in --config-arg and in --env the suite replaces {{url}}, {{key}},
{{model}}, {{workspace}} and {{file}} (the path of that file). A client gets in
{{server}} the path of the program to start as its server; without it in COMMAND,
the client speaks over its own stdin and stdout.
"""

_EPILOG = """\
Examples:
  # Judge the beginning and the end of a session, and write a report
  $ eca-server conformance --only lifecycle --html report.html -- eca-server serve

  # List the cases about turns
  $ eca-server conformance --only turns --list

Exit codes: 0 conformant, 1 not conformant, 2 wrong usage, 3 COMMAND cannot be
started, 4 no judged requirement is broken, but the suite itself failed in a case
or cannot write a report, 130 and 143 ended by a signal.
"""

_Read = TypeVar("_Read")

_CANNOT_START: Final = 3
_SUITE_FAILED: Final = 4


class _Parser(Parser):
    @override
    def refuse(self, rest: Sequence[str]) -> NoReturn:
        if not rest[0].startswith("-"):
            self.error(f"expected `--` before the command: `-- {' '.join(rest)}`")
        super().refuse(rest)


def make_parser() -> Parser:
    """Make the parser of the command."""
    parser = _Parser(
        prog="eca-server conformance",
        usage="eca-server conformance [options] -- COMMAND [ARGUMENT ...]",
        description=_DESCRIPTION,
        epilog=_EPILOG,
    )
    _add_target_options(parser.add_argument_group("COMMAND").add_argument)
    _add_suite_options(parser.add_argument_group("the suite").add_argument)
    add = parser.add_argument_group("reports").add_argument
    add("--verbose", action="store_true", help="print every requirement")
    for name, help_ in _FILES.items():
        add(name, type=Path, metavar="FILE", help=help_)
    return parser


_FILES: Final = {
    "--json-out": "write the findings as a JSON list",
    "--junit": "write a JUnit XML report",
    "--html": "write an HTML report",
    "--badge": "write a badge as SVG",
    "--compare": "compare with an earlier --json-out",
    "--known-failures": "ids, one per line; their failures do not fail the run",
    "--write-known-failures": "write the ids of this run's failures",
}
"""The options that name a file."""


def _add_target_options(add: Callable[..., object]) -> None:
    clients = sorted(PERSONALITIES)
    repeated: dict[str, Any] = {"action": "append", "default": []}
    add("--client", action="store_true", help="COMMAND is a client")
    protocols = "the protocol of COMMAND (default: %(default)s); acp: an agent of ACP"
    add("--protocol", choices=("eca", "acp"), default="eca", help=protocols)
    editions = "2025-06, 2025-09, 2025-10 or current (default: the target's own)"
    add("--edition", type=_edition, metavar="EDITION", help=editions)
    as_client = f"behave like this client: {', '.join(clients)}"
    add("--as", dest="personality", choices=clients, metavar="CLIENT", help=as_client)
    add("--cwd", type=Path, metavar="FOLDER", help="working folder of COMMAND")
    env = "an environment variable of COMMAND; may be repeated"
    add("--env", type=_variable, metavar="NAME=VALUE", help=env, **repeated)
    template = "template of its configuration file"
    add("--config-template", type=Path, metavar="FILE", help=template)
    argument = "an argument appended to COMMAND, such as --config={{file}}; may be repeated"
    add("--config-arg", metavar="ARGUMENT", help=argument, **repeated)
    apis, api = ("openai-chat", "anthropic"), "the model's API (default: %(default)s)"
    add("--api", choices=apis, default=apis[0], help=api)


def _add_suite_options(add: Callable[..., object]) -> None:
    only = "requirements, cases or chapters by name, such as 'W-2*' or stops; may be repeated"
    add("--only", action="append", default=[], metavar="PATTERN", help=only)
    add("--list", action="store_true", help="list the cases without running them")
    add("--jobs", type=count, metavar="N", help="parallel cases (default: by CPUs)")
    limit = "time limit; later requirements are untestable (default: %(default)g)"
    add("--seconds", type=seconds, default=SECONDS, metavar="N", help=limit)


def run(arguments: Sequence[str]) -> int:
    """Run the command, and return the exit code."""
    try:
        return _run_command(arguments)
    except OSError as fault:
        _report_error(f"{fault}; this is not a verdict on the target")
    except Exception:  # noqa: BLE001 - a bug must not look like a verdict
        write_to_user(printable_lines(traceback.format_exc()), sys.stderr)
        _report_error(
            "the suite itself failed; this is not a verdict on the target. Please report it."
        )
    return _SUITE_FAILED


def _run_command(arguments: Sequence[str]) -> int:
    words = list(arguments)
    split = words.index("--") if "--" in words else len(words)
    command = tuple(words[split + 1 :])
    options = make_parser().parse_args(words[:split])
    if unused := _unused_options(options):
        return _refuse(unused)
    selected = _select_cases(options)
    if not selected:
        return _refuse(f"--only: no case or requirement is called {' or '.join(options.only)}")
    if options.list:
        write_to_user("".join(map(_case_text, selected.values())), sys.stdout)
        return 0
    if not command:
        return _refuse("expected `-- COMMAND`, which starts the target")
    try:
        _outputs(options).check()
        known = _read(options.known_failures, lambda text: known_failures(text.decode()))
        earlier = _read(options.compare, Run.from_json)
        target = _target(options, command)
    except (OutputsInvalid, OSError, ValueError) as fault:
        return _refuse(str(fault))
    return _judge(options, target, selected, known or frozenset(), earlier)


def _judge(
    options: argparse.Namespace,
    target: Target,
    selected: Mapping[str, Case],
    known: frozenset[str],
    earlier: Run | None,
) -> int:
    progress = Progress(sys.stderr, len(selected))

    async def judge() -> Run | StartFailed | OSError:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(progress.line.keep_current)
            try:
                return await run_suite(
                    target,
                    kind=_suite(options),
                    cases=selected.values(),
                    jobs=options.jobs,
                    seconds=options.seconds,
                    on_case=progress.add,
                )
            except (StartFailed, OSError) as fault:
                return fault
            finally:
                nursery.cancel_scope.cancel()

    outcome, signal_number = run_until_a_signal(judge)
    if outcome is None:
        return 128 + (signal_number or 0)
    if isinstance(outcome, OSError):
        raise outcome
    if isinstance(outcome, StartFailed):
        _report_error(f"the target cannot be started: {outcome}")
        return _CANNOT_START
    outcome = attrs.evolve(outcome, known=known)
    if options.only:
        outcome = _restrict(outcome, options, selected)
        ids = {finding.id for finding in outcome.findings}
        earlier = earlier and _with_rows(earlier, ids)
    changes = None if earlier is None else compare(earlier, outcome)
    write_to_user(printable_lines(render_table(outcome, verbose=options.verbose)), sys.stdout)
    if changes is not None:
        lines = "".join(f"{line}\n" for line in describe_changes(changes))
        write_to_user(f"\n{printable_lines(lines)}", sys.stdout)
    failures = _outputs(options).write(outcome, _renderers(selected, changes))
    for fault in failures:
        _report_error(f"{fault}; this is not a verdict on the target")
    if outcome.unexpected:
        return 1
    return _SUITE_FAILED if failures or outcome.new_suite_errors else 0


def _suite(options: argparse.Namespace) -> type[Suite]:
    if options.client:
        return ClientSuite
    return AcpSuite if options.protocol == "acp" else ServerSuite


def _outputs(options: argparse.Namespace) -> Outputs:
    written = ("--json-out", "--junit", "--html", "--badge", "--write-known-failures")
    files = {name: getattr(options, name[2:].replace("-", "_")) for name in written}
    return Outputs({name: file for name, file in files.items() if file is not None})


def _renderers(
    cases: Mapping[str, Case], changes: Changes | None
) -> Mapping[str, Callable[[Run], str]]:
    return {
        "--json-out": lambda run: dumps(run.to_json()).decode() + "\n",
        "--junit": render_junit,
        "--html": lambda run: render_html(run, cases, changes=changes),
        "--badge": render_badge,
        "--write-known-failures": Run.known_text,
    }


def _select_cases(options: argparse.Namespace) -> dict[str, Case]:
    """Return the cases that a pattern names, with the named requirements; all without a pattern.

    A requirement equal to another one is judged by the cases of that one.
    """
    patterns: Sequence[str] = options.only
    same = _suite(options).duplicates
    named = {id_ for id_ in ALL_REQUIREMENTS if _is_named(id_, patterns)}
    named |= {same[id_] for id_ in named if id_ in same}
    selected: dict[str, Case] = {}
    for name, case in _suite(options).all_cases().items():
        rows = tuple(id_ for id_ in case.rows if id_ in named)
        if not patterns or _is_named(name, patterns):
            selected[name] = case
        elif rows:
            selected[name] = attrs.evolve(case, rows=rows)
    return selected


def _restrict(outcome: Run, options: argparse.Namespace, selected: Mapping[str, Case]) -> Run:
    """Keep only the findings on named requirements, and on those of the selected cases.

    The requirements of a named case include those that are judged with them, and all that its
    messages break: nothing works with an id of a wrong type, or with a banner between the frames.
    """
    patterns: Sequence[str] = options.only
    rows = {id_ for case in selected.values() for id_ in case.rows}
    whole = {id_ for name in selected if _is_named(name, patterns) for id_ in selected[name].rows}
    rows |= {id_ for id_, judged in _suite(options).duplicates.items() if judged in whole}
    rows |= {f.id for f in outcome.findings if whole and f.verdict in {"fail", "warn"}}
    rows |= {f.id for f in outcome.findings if _is_named(f.id, patterns)}
    return _with_rows(outcome, rows)


def _with_rows(outcome: Run, ids: Collection[str]) -> Run:
    return attrs.evolve(outcome, findings=tuple(f for f in outcome.findings if f.id in ids))


def _is_named(name: str, patterns: Sequence[str]) -> bool:
    return any(is_named(name, pattern) for pattern in patterns)


def _unused_options(options: argparse.Namespace) -> str:
    """Return what is wrong with options that mean nothing together; empty: nothing."""
    if options.client and options.protocol != "eca":
        return f"--client: the suite has no server of --protocol {options.protocol}"
    what = "--client" if options.client else f"--protocol {options.protocol}"
    of_servers = {"--as": options.personality, "--edition": options.edition}
    if options.client:
        del of_servers["--edition"]
    elif options.protocol == "eca":
        return ""
    unused = [name for name, value in of_servers.items() if value is not None]
    return f"{unused[0]} has no meaning with {what}" if unused else ""


def _target(options: argparse.Namespace, command: tuple[str, ...]) -> Target:
    template: Path | None = options.config_template
    words = (*command, *options.config_arg, *dict(options.env).values())
    if template is None and any("{{file}}" in word for word in words):
        raise ValueError("{{file}} needs --config-template FILE")
    return Target(
        command=command,
        cwd=options.cwd,
        env=dict(options.env),
        template=_read(template, bytes.decode),
        template_name=template.name if template else "",
        config_args=tuple(options.config_arg),
        api=options.api,
        edition=options.edition,
        personality=PERSONALITIES.get(options.personality, PLAIN),
    )


def _case_text(case: Case) -> str:
    return f"{case.name}\n    {case.summary}\n    {' '.join(case.rows)}\n"


def _read(path: Path | None, read: Callable[[bytes], _Read]) -> _Read | None:
    """Read a file, if there is one."""
    if path is None:
        return None
    try:
        return read(path.read_bytes())
    except OSError as fault:
        raise ValueError(f"could not read {path}: {fault.strerror or fault}") from fault
    except ValueError as fault:
        raise ValueError(f"{path}: {fault}") from fault


def _edition(name: str) -> Revision:
    try:
        return parse_revision(name)
    except ValueError as fault:
        raise argparse.ArgumentTypeError(str(fault)) from fault


def _variable(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not name or not equals:
        raise argparse.ArgumentTypeError(f"expected NAME=VALUE, got {text!r}")
    return name, value


def _refuse(why: str) -> int:
    _report_error(why)
    return 2


def _report_error(why: str) -> None:
    text = "\n".join(printable_line(line, longest=2000) for line in why.splitlines())
    sys.stderr.write(f"eca-server conformance: {text}\n")
