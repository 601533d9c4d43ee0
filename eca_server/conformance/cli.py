"""The command line of `conformance`.

Exit codes: 0 nothing binding fails, 1 something does, 2 wrong usage, 3 the target cannot be
started, 4 the suite itself failed, 130 and 143 ended by a signal.
"""

from __future__ import annotations

import argparse
import sys
import traceback
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final, NoReturn, TypeAlias, TypeVar

import attrs
import trio

from eca_protocol.errors import StartFailed
from eca_protocol.json import dumps
from eca_protocol.revisions import Revision, parse_revision
from eca_protocol.testing.conformance.cases import Case, is_named, server_cases
from eca_protocol.testing.conformance.client.suite import SAME as SAME_OF_CLIENTS
from eca_protocol.testing.conformance.client.suite import (
    ClientCase,
    client_cases,
    run_client_suite,
)
from eca_protocol.testing.conformance.known import (
    known_failures,
    known_text,
    new_faults,
    unexpected,
)
from eca_protocol.testing.conformance.personalities import PERSONALITIES, PLAIN
from eca_protocol.testing.conformance.run import Run
from eca_protocol.testing.conformance.same import SAME
from eca_protocol.testing.conformance.suite import SECONDS, run_suite
from eca_protocol.testing.conformance.target import Target
from eca_protocol.testing.requirements import REQUIREMENTS
from eca_server.command_line import write_to_user
from eca_server.conformance.badge import badge
from eca_server.conformance.compare import Change, compare, compared
from eca_server.conformance.html import html
from eca_server.conformance.junit import junit
from eca_server.conformance.progress import Progress
from eca_server.conformance.table import table
from eca_server.printable import printable_line, printable_lines
from eca_server.report_files import Outputs, OutputsInvalid
from eca_server.signals import until_a_signal

__all__ = ["run"]

_DESCRIPTION = """\
Find out where a server departs from the ECA protocol: COMMAND starts it, in
whatever language it is written; the suite is its editor and its model, and
judges each row of the requirements table that it can see. With --client COMMAND
starts a client that does by itself what its user would, such as a test of an
editor's plugin; the suite is its server.

The model stands at a loopback address. The server is told of it in ECA_CONFIG,
in upstream's form; a server that is configured otherwise gets the file that
--config-template describes. In it, in COMMAND, in --config-arg and in --env
these stand for what the suite puts in: {{url}}, {{key}}, {{model}},
{{workspace}} and {{file}}, the written file. A client finds in {{server}} the
path of the program that it has to start as its server; without it in COMMAND it
is taken to speak over its own stdin and stdout.
"""

_EPILOG = """\
Exit codes: 0 nothing binding fails, 1 something does, 2 wrong usage, 3 COMMAND
cannot be started, 4 nothing that was judged fails, but the suite itself failed
in a case or cannot write what it found, 130 and 143 ended by a signal.
"""

AnyCase: TypeAlias = Case | ClientCase
_Read = TypeVar("_Read")

_CANNOT_START: Final = 3
_SUITE_FAILED: Final = 4


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        sys.stderr.write(f"{self.prog}: {message}\nTry `eca-server conformance --help`.\n")
        raise SystemExit(2)


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="eca-server conformance",
        usage="eca-server conformance [options] -- COMMAND [ARGUMENT ...]",
        description=_DESCRIPTION,
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    about = parser.add_argument_group("COMMAND")
    about.add_argument("--client", action="store_true", help="it is a client, and no server")
    about.add_argument(
        "--edition",
        type=_edition,
        metavar="EDITION",
        help="2025-06, 2025-09, 2025-10 or current (default: what it speaks by itself)",
    )
    about.add_argument(
        "--as",
        dest="personality",
        choices=sorted(PERSONALITIES),
        metavar="CLIENT",
        help=f"be like a client of the field: {', '.join(sorted(PERSONALITIES))}",
    )
    about.add_argument("--cwd", type=Path, metavar="FOLDER", help="where COMMAND is started")
    about.add_argument(
        "--env",
        action="append",
        type=_variable,
        default=[],
        metavar="NAME=VALUE",
        help="one more environment variable; may be repeated",
    )
    about.add_argument(
        "--config-template", type=Path, metavar="FILE", help="its configuration, to be filled in"
    )
    about.add_argument(
        "--config-arg",
        action="append",
        default=[],
        metavar="ARGUMENT",
        help="one more argument behind COMMAND, such as --config={{file}}; may be repeated",
    )
    about.add_argument(
        "--api",
        choices=("openai-chat", "anthropic"),
        default="openai-chat",
        help="which API the model speaks (default: %(default)s)",
    )
    which = parser.add_argument_group("the suite")
    which.add_argument(
        "--only",
        action="append",
        default=[],
        metavar="PATTERN",
        help="rows, cases or chapters by name, such as 'W-2*' or stops; may be repeated",
    )
    which.add_argument("--list", action="store_true", help="list the cases and run none")
    which.add_argument("--jobs", type=_count, metavar="N", help="cases at once (default: by CPUs)")
    which.add_argument(
        "--seconds",
        type=_seconds,
        default=SECONDS,
        metavar="N",
        help="for the whole; what has no time is untestable (default: %(default)g)",
    )
    found = parser.add_argument_group("what is found")
    found.add_argument("--verbose", action="store_true", help="tell of every row")
    found.add_argument("--json-out", type=Path, metavar="FILE", help="the findings as a JSON list")
    found.add_argument("--junit", type=Path, metavar="FILE", help="the same for a build server")
    found.add_argument("--html", type=Path, metavar="FILE", help="the same as a page for people")
    found.add_argument("--badge", type=Path, metavar="FILE", help="a badge, as SVG")
    found.add_argument(
        "--compare", type=Path, metavar="FILE", help="tell what changed since that --json-out"
    )
    found.add_argument(
        "--known-failures",
        type=Path,
        metavar="FILE",
        help="ids, one a line: what fails there fails the run no more",
    )
    found.add_argument(
        "--write-known-failures", type=Path, metavar="FILE", help="write down what fails today"
    )
    return parser


def run(arguments: Sequence[str]) -> int:
    """Run the command; the exit code."""
    try:
        return _run_command(arguments)
    except OSError as fault:
        _complain(f"{fault}; that says nothing of what is tested")
    except Exception:  # noqa: BLE001 - whatever it is, it must not look like a verdict
        write_to_user(printable_lines(traceback.format_exc()), sys.stderr)
        _complain("the suite itself failed; that says nothing of what is tested. Please report it.")
    return _SUITE_FAILED


def _run_command(arguments: Sequence[str]) -> int:
    words = list(arguments)
    split = words.index("--") if "--" in words else len(words)
    command = tuple(words[split + 1 :])
    options = _options(words[:split])
    chosen = _chosen(options)
    if not chosen:
        return _refuse(
            f"--only: no case is called {' or '.join(options.only)}, or judges such rows"
        )
    if options.list:
        write_to_user("".join(map(_listed, chosen.values())), sys.stdout)
        return 0
    if not command:
        return _refuse("expected `-- COMMAND` that starts what is tested")
    try:
        _outputs(options).check()
        known = _read(options.known_failures, lambda text: known_failures(text.decode()))
        earlier = _read(options.compare, Run.from_json)
        target = _target(options, command)
    except (OutputsInvalid, OSError, ValueError) as fault:
        return _refuse(str(fault))
    return _judge(options, target, chosen, known or frozenset(), earlier)


def _judge(
    options: argparse.Namespace,
    target: Target,
    chosen: Mapping[str, AnyCase],
    known: Collection[str],
    earlier: Run | None,
) -> int:
    progress = Progress(sys.stderr, len(chosen))

    async def judge() -> Run | StartFailed:
        try:
            return await _run(options, target, chosen.values(), progress)
        except StartFailed as fault:
            return fault

    outcome, signalled = trio.run(until_a_signal, judge)
    progress.end()
    if outcome is None:
        return 128 + (signalled or 0)
    if isinstance(outcome, StartFailed):
        _complain(f"cannot be started: {outcome}")
        return _CANNOT_START
    if options.only:
        outcome = _narrowed(outcome, chosen, options.only)
        earlier = earlier and _narrowed(earlier, chosen, options.only)
    changes = None if earlier is None else compare(earlier, outcome)
    write_to_user(printable_lines(table(outcome, known, verbose=options.verbose)), sys.stdout)
    if changes is not None:
        lines = "".join(f"{line}\n" for line in compared(changes))
        write_to_user(f"\n{printable_lines(lines)}", sys.stdout)
    not_written = _outputs(options).write(outcome, _renderers(chosen, known, changes))
    for fault in not_written:
        _complain(f"{fault}; that says nothing of what is tested")
    if unexpected(outcome, known):
        return 1
    return _SUITE_FAILED if not_written or new_faults(outcome, known) else 0


async def _run(
    options: argparse.Namespace, target: Target, cases: Iterable[AnyCase], progress: Progress
) -> Run:
    if options.client:
        return await run_client_suite(
            target,
            cases=[case for case in cases if isinstance(case, ClientCase)],
            jobs=options.jobs,
            seconds=options.seconds,
            told=progress.take,
        )
    return await run_suite(
        target,
        cases=[case for case in cases if isinstance(case, Case)],
        jobs=options.jobs,
        seconds=options.seconds,
        told=progress.take,
    )


def _outputs(options: argparse.Namespace) -> Outputs:
    """The files that are to be written."""
    wanted = {
        "--json-out": options.json_out,
        "--junit": options.junit,
        "--html": options.html,
        "--badge": options.badge,
        "--write-known-failures": options.write_known_failures,
    }
    return Outputs({option: file for option, file in wanted.items() if file is not None})


def _renderers(
    cases: Mapping[str, AnyCase], known: Collection[str], changes: tuple[Change, ...] | None
) -> Mapping[str, Callable[[Run], str]]:
    """An option -> what is written to its file."""
    return {
        "--json-out": lambda run: dumps(run.to_json()).decode() + "\n",
        "--junit": lambda run: junit(run, known),
        "--html": lambda run: html(run, cases, known=known, changes=changes),
        "--badge": lambda run: badge(run, known),
        "--write-known-failures": known_text,
    }


def _chosen(options: argparse.Namespace) -> dict[str, AnyCase]:
    """The cases that a pattern names, with the rows that count; all without a pattern.

    A row that says what another one says is judged by the cases of that one.
    """
    patterns: Sequence[str] = options.only
    cases: Mapping[str, AnyCase] = client_cases() if options.client else server_cases()
    same = SAME_OF_CLIENTS if options.client else SAME
    named = {id_ for id_ in REQUIREMENTS if _is_named(id_, patterns)}
    named |= {same[id_] for id_ in named if id_ in same}
    chosen: dict[str, AnyCase] = {}
    for name, case in cases.items():
        rows = tuple(id_ for id_ in case.rows if id_ in named)
        if not patterns or _is_named(name, patterns):
            chosen[name] = case
        elif rows:
            chosen[name] = attrs.evolve(case, rows=rows)
    return chosen


def _narrowed(outcome: Run, chosen: Mapping[str, AnyCase], patterns: Sequence[str]) -> Run:
    """Only the findings on rows that are named, and on those of the chosen cases."""
    rows = {id_ for case in chosen.values() for id_ in case.rows}
    kept = (f for f in outcome.findings if f.id in rows or _is_named(f.id, patterns))
    return attrs.evolve(outcome, findings=tuple(kept))


def _is_named(name: str, patterns: Sequence[str]) -> bool:
    return any(is_named(name, pattern) for pattern in patterns)


def _target(options: argparse.Namespace, command: tuple[str, ...]) -> Target:
    template: Path | None = options.config_template
    words = (*command, *options.config_arg, *dict(options.env).values())
    if template is None and any("{{file}}" in word for word in words):
        raise ValueError("{{file}} is what --config-template is written to, and there is none")
    return Target(
        command=command,
        cwd=options.cwd,
        env=dict(options.env),
        template=None if template is None else template.read_text("utf-8"),
        template_name=template.name if template else "",
        config_args=tuple(options.config_arg),
        api=options.api,
        edition=options.edition,
        personality=PERSONALITIES.get(options.personality, PLAIN),
    )


def _listed(case: AnyCase) -> str:
    return f"{case.name}\n    {case.does}\n    {' '.join(case.rows)}\n"


def _options(words: Sequence[str]) -> argparse.Namespace:
    parser = _parser()
    options, rest = parser.parse_known_args(words)
    if rest and not rest[0].startswith("-"):
        parser.error(f"expected `--` before the command: `-- {' '.join(rest)}`")
    if rest:
        parser.error(f"unknown options: {' '.join(rest)}")
    return options


def _read(path: Path | None, read: Callable[[bytes], _Read]) -> _Read | None:
    """What a file holds.

    Raises:
        OSError: it cannot be read.
        ValueError: it holds nothing of the kind; the text begins with its name.
    """
    if path is None:
        return None
    try:
        return read(path.read_bytes())
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


def _count(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"expected a number above 0, got {text!r}")
    return int(text)


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < 1e6:
        raise argparse.ArgumentTypeError(f"expected seconds, got {text!r}")
    return seconds


def _refuse(why: str) -> int:
    _complain(why)
    return 2


def _complain(why: str) -> None:
    told = "\n".join(printable_line(line, longest=2000) for line in why.splitlines())
    sys.stderr.write(f"eca-server conformance: {told}\n")
