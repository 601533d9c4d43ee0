"""The command line of `ecp` (also `python -m eca_server ecp`): evaluating agents.

Each command imports what it needs when it runs. Wrong usage is refused on stderr with exit code 2.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

from eca_protocol.ecp.schema import SCHEMAS
from eca_server.command_line import port, repair_streams, run_to_end, seconds
from eca_server.printable import printable_line, printable_lines

__all__ = ["main", "run"]

_DESCRIPTION: Final = """\
Evaluate agents by the Evaluation Context Protocol: a manifest says what is said to
an agent and what is checked of its answers. To begin: `ecp init`, then
`ecp run --manifest ecp_eval/manifest.yaml`.
"""

_EPILOG: Final = """\
Exit codes: 0 every check passed; 2 one did not, a step gave no result, nothing was
checked, or wrong usage, such as a manifest that is not there; 1 the manifest or an
output cannot be used; 130 and 143 ended by a signal, with the report of what ran
until then.
"""


def main() -> int:
    """The console script `ecp`."""
    try:
        return run(sys.argv[1:])
    except KeyboardInterrupt:  # before there was anything to end
        return 130


def run(arguments: Sequence[str]) -> int:
    """Run the command line; the exit code."""
    repair_streams()
    return run_to_end("ecp", lambda: _run_command(arguments))


def _run_command(arguments: Sequence[str]) -> int:
    options = _parser().parse_args(arguments)
    if isinstance(sys.stdout, io.TextIOWrapper):
        # Whatever the locale: a report is JSON, and names are what they are.
        sys.stdout.reconfigure(encoding="utf-8", errors="backslashreplace")
    command: Callable[[argparse.Namespace], int] = options.command
    return command(options)


def _count(text: str) -> int:
    if not text.isascii() or not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"expected a number from 1 on, got {text!r}")
    return int(text)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="ecp",
        description=_DESCRIPTION,
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    _add_run(commands)
    _add_small(commands)
    _add_reports(commands)
    _add_agent(commands)
    return parser


def _command(
    commands: Any, name: str, function: Callable[[argparse.Namespace], int], words: str
) -> argparse.ArgumentParser:
    added: argparse.ArgumentParser = commands.add_parser(
        name, help=words, description=words, allow_abbrev=False
    )
    added.set_defaults(command=function)
    return added


def _add_run(commands: Any) -> None:
    run = _command(commands, "run", _run, "run a manifest's scenarios and check what comes of them")
    add = run.add_argument
    add("-m", "--manifest", type=Path, required=True, metavar="FILE", help="what to run")
    add("--report", type=Path, metavar="FILE", help="write an HTML report")
    add("--json", action="store_true", help="print the JSON report on standard output")
    add("--json-out", type=Path, metavar="FILE", help="write the JSON report")
    add("--junit", type=Path, metavar="FILE", help="write JUnit's XML")
    add("--audit-out", type=Path, metavar="FILE", help="write the audit record")
    add("--verbose", action="store_true", help="tell of each check")
    add(
        "--fail-on-error",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="whether a failed check makes the exit code 2",
    )
    add("--scenario", action="append", default=[], metavar="NAME", help="run this one (* and ?)")
    add("--exclude", action="append", default=[], metavar="NAME", help="leave this one out")
    add("--repeat", type=_count, default=1, metavar="N", help="run each N times")
    add("--jobs", type=_count, default=1, metavar="N", help="run N at once, in processes")
    add("--dask", metavar="ADDRESS", help="run them on a Dask cluster")
    add("--fail-fast", action="store_true", help="begin nothing after one that did not pass")
    add("--reuse-agent", action="store_true", help="one process for all, reset in between")
    add("--timeout", type=seconds, metavar="S", help="for each request (30; ECP_RPC_TIMEOUT)")
    add("--start-timeout", type=seconds, default=30.0, metavar="S", help="for a start (30)")
    add("--scenario-timeout", type=seconds, metavar="S", help="for a scenario (none)")
    add("--max-duration", type=seconds, metavar="S", help="for all (none; ECP_MAX_DURATION)")
    add("--max-message-bytes", type=_count, default=16 * 2**20, metavar="N", help="(16 MiB)")
    add("--shell", action="store_true", help="the target is a line for sh")
    add("--cwd", choices=("caller", "manifest"), default="caller", help="where the target runs")
    add("--allow-outside", action="store_true", help="datasets outside the manifest's folder")
    add("--allow-empty", action="store_true", help="compare empty texts, too")
    add("--nested-arguments", choices=("exact", "subset"), default="exact", help="of tool_usage")
    add("--judge-cache", metavar="FOLDER", help="keep verdicts of judges, and use them again")
    add("--config-file", metavar="FILE", help="the server's, for judges of its providers")
    add("--redact", action="store_true", help="leave what was said and answered out of reports")


def _run(options: argparse.Namespace) -> int:
    from eca_server.ecp.batch import RunLimits  # noqa: PLC0415 - see the module's docstring
    from eca_server.ecp.run_command import RunOptions, run_manifest  # noqa: PLC0415 - likewise

    if not options.manifest.is_file():
        sys.stderr.write(f"ecp run: no such file: {printable_line(str(options.manifest))}\n")
        return 2
    try:
        rpc = options.timeout or _from_environment("ECP_RPC_TIMEOUT") or 30.0
        duration = options.max_duration or _from_environment("ECP_MAX_DURATION")
    except argparse.ArgumentTypeError as fault:
        sys.stderr.write(f"ecp run: {printable_lines(str(fault))}\n")
        return 1
    wanted: dict[str, Path | None] = {
        "json": options.json_out,
        "audit": options.audit_out,
        "junit": options.junit,
        "html": options.report,
    }
    return run_manifest(
        RunOptions(
            manifest=options.manifest,
            outputs={kind: file for kind, file in wanted.items() if file is not None},
            prints_json=options.json,
            verbose=options.verbose,
            fail_on_error=options.fail_on_error,
            limits=RunLimits(
                rpc=rpc,
                start=options.start_timeout,
                scenario=options.scenario_timeout,
                run=duration,
                max_message=options.max_message_bytes,
            ),
            only=tuple(options.scenario),
            without=tuple(options.exclude),
            repeat=options.repeat,
            jobs=options.jobs,
            dask=options.dask,
            fail_fast=options.fail_fast,
            reuse_agent=options.reuse_agent,
            shell=options.shell,
            cwd=options.cwd,
            allow_outside=options.allow_outside,
            allow_empty=options.allow_empty,
            nested_subset=options.nested_arguments == "subset",
            judge_cache=options.judge_cache,
            config_file=options.config_file,
            redact=options.redact,
        )
    )


def _from_environment(name: str) -> float | None:
    text = os.environ.get(name, "").strip()
    if not text:
        return None
    try:
        return seconds(text)
    except argparse.ArgumentTypeError as fault:
        raise argparse.ArgumentTypeError(f"{name}: {fault}") from None


def _add_small(commands: Any) -> None:
    validate = _command(commands, "validate", _validate, "check a manifest, and run nothing")
    validate.add_argument("manifest", type=Path, metavar="MANIFEST")
    validate.add_argument("--allow-outside", action="store_true")
    init = _command(commands, "init", _init, "write an agent and a manifest to begin with")
    init.add_argument("folder", type=Path, nargs="?", default=Path("ecp_eval"), metavar="DIR")
    init.add_argument("--force", action="store_true", help="replace what is there")
    _command(commands, "doctor", _doctor, "say what this machine has for evaluating agents")
    schema = _command(commands, "schema", _schema, "print a JSON Schema")
    schema.add_argument("name", choices=SCHEMAS)
    conformance = _command(
        commands, "conformance", _conformance, "check whether an agent keeps to the protocol"
    )
    conformance.add_argument("-t", "--target", required=True, help="a command or a URL")
    conformance.add_argument("--input", default="hello", help="what it is told")
    conformance.add_argument("--json", action="store_true", help="print the findings as JSON")
    conformance.add_argument("--json-out", type=Path, metavar="FILE", help="write them")
    conformance.add_argument("--timeout", type=seconds, default=30.0, metavar="S")
    conformance.add_argument("--shell", action="store_true", help="the target is a line for sh")


def _validate(options: argparse.Namespace) -> int:
    from eca_server.ecp.datasets import with_datasets  # noqa: PLC0415 - see above
    from eca_server.ecp.manifest import ManifestInvalid, load_manifest  # noqa: PLC0415 - likewise

    try:
        manifest = load_manifest(options.manifest)
        manifest = with_datasets(manifest, os.environ, allow_outside=options.allow_outside)
    except OSError as fault:
        sys.stderr.write(f"{printable_line(f'{options.manifest}: {fault.strerror or fault}')}\n")
        return 2
    except ManifestInvalid as fault:
        sys.stderr.write(f"{printable_lines(str(fault))}\n")
        return 1
    for warning in manifest.warnings:
        sys.stderr.write(f"warning: {printable_lines(str(warning))}\n")
    steps = [step for scenario in manifest.scenarios for step in scenario.steps]
    graders = sum(len(step.graders) for step in steps)
    sys.stdout.write(
        f"{printable_line(manifest.name)}: {len(manifest.scenarios)} scenarios, "
        f"{len(steps)} steps, {graders} graders\n"
    )
    return 0


def _init(options: argparse.Namespace) -> int:
    from eca_server.ecp.starter import write_starter  # noqa: PLC0415 - see above

    try:
        agent, manifest = write_starter(options.folder, force=options.force)
    except (OSError, ValueError) as fault:
        sys.stderr.write(f"ecp init: {printable_lines(str(fault))}\n")
        return 1
    sys.stdout.write(f"{agent}\n{manifest}\nNow: ecp run --manifest {manifest}\n")
    return 0


def _doctor(_: argparse.Namespace) -> int:
    from eca_server.ecp.doctor import told  # noqa: PLC0415 - see above

    sys.stdout.write(told(os.environ))
    return 0


def _schema(options: argparse.Namespace) -> int:
    from eca_protocol.ecp.schema import schema_text  # noqa: PLC0415 - see above

    sys.stdout.write(schema_text(options.name))
    return 0


def _conformance(options: argparse.Namespace) -> int:
    from eca_server.ecp.agent_conformance import conformance  # noqa: PLC0415 - see above

    return conformance(
        options.target,
        shell=options.shell,
        text=options.input,
        deadline=options.timeout,
        prints_json=options.json,
        file=options.json_out,
    )


def _add_reports(commands: Any) -> None:
    compare = _command(commands, "compare", _compare, "say what changed between two JSON reports")
    compare.add_argument("before", type=Path, metavar="A")
    compare.add_argument("after", type=Path, metavar="B")
    compare.add_argument("--json", action="store_true", help="print it as JSON")
    compare.add_argument(
        "--exit-on-regression", action="store_true", help="exit code 2 if a check got worse"
    )
    trend = _command(commands, "trend", _trend, "say how pass rates go over many JSON reports")
    trend.add_argument("files", metavar="GLOB", help="JSON reports")
    trend.add_argument("-w", "--window", type=_count, default=20, metavar="N", help="the last N")
    trend.add_argument("--exit-on-regression", action="store_true", help="exit code 2 if it falls")
    trend.add_argument("--verbose", action="store_true", help="tell of each report")


def _compare(options: argparse.Namespace) -> int:
    from eca_server.ecp.compare import compare  # noqa: PLC0415 - see above

    try:
        before, after = _report(options.before), _report(options.after)
    except (OSError, ValueError) as fault:
        sys.stderr.write(f"ecp compare: {printable_lines(str(fault))}\n")
        return 1
    comparison = compare(before, after)
    if options.json:
        sys.stdout.write(f"{json.dumps(comparison.to_json(), indent=2)}\n")
    else:
        sys.stdout.write(comparison.text())
    return 2 if comparison.regressed and options.exit_on_regression else 0


def _trend(options: argparse.Namespace) -> int:
    from glob import iglob  # noqa: PLC0415 - see above

    from eca_server.ecp.trend import trend  # noqa: PLC0415 - likewise

    reports, faults = [], []
    for name in sorted(iglob(options.files, recursive=True)):  # noqa: PTH207 - an absolute pattern
        try:
            reports.append((name, _report(Path(name))))
        except (OSError, ValueError) as fault:
            faults.append(f"{fault}\n")
    sys.stderr.write(printable_lines("".join(faults)))
    if not reports:
        sys.stderr.write(f"ecp trend: no report matches {printable_line(options.files)}\n")
        return 1
    found = trend(reports, window=options.window)
    sys.stdout.write(found.text(verbose=options.verbose))
    return 2 if found.regressed and options.exit_on_regression else 0


def _report(file: Path) -> Any:
    from eca_server.ecp.results import RunReport  # noqa: PLC0415 - see above

    try:
        return RunReport.from_json(json.loads(file.read_text("utf-8-sig")))
    except (ValueError, TypeError, KeyError, RecursionError) as fault:
        raise ValueError(f"{file} is no report: {fault}") from fault


def _add_agent(commands: Any) -> None:
    agent = _command(commands, "agent", _agent, "serve this server's chat as an agent")
    agent.add_argument("--model", metavar="PROVIDER/MODEL", help="for every prompt")
    agent.add_argument("--behavior", metavar="NAME", help="for every prompt")
    agent.add_argument("--approve", action="store_true", help="let calls run that would ask")
    agent.add_argument("--config-file", type=Path, metavar="FILE", help="in place of your own")
    agent.add_argument("--workspace", type=Path, default=Path(), metavar="DIR", help="(here)")
    agent.add_argument(
        "--http", metavar="PORT", type=port, help="over HTTP, not standard input (0: a free one)"
    )


def _agent(options: argparse.Namespace) -> int:
    from eca_server.ecp.chat_agent import serve_chat  # noqa: PLC0415 - see above

    return serve_chat(
        model=options.model,
        behavior=options.behavior,
        approve=options.approve,
        config_file=options.config_file,
        workspace=options.workspace,
        port=options.http,
    )
