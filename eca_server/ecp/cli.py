"""The command line of `ecp` (also `python -m eca_server ecp`), which evaluates agents.

Each command imports its modules when it runs. Wrong usage is an error on stderr with exit code 2.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import shlex
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

from eca_protocol.ecp.schema import SCHEMAS
from eca_server.ecp.help_texts import MAIN, PAGES
from eca_server.printable import printable_line, printable_lines
from eca_server.system.command_line import (
    Page,
    Parser,
    add_command,
    count,
    fail,
    option,
    port,
    repair_streams,
    run_to_end,
    seconds,
)
from eca_server.system.utf_8_mode import ensure_utf_8_mode

_TIMEOUT: Final = "limit of a request (default: the variable ECP_RPC_TIMEOUT, else 30)"
_ALLOW_OUTSIDE: Final = "allow datasets outside the manifest's folder"


def main() -> int:
    """Run the console script `ecp`."""
    ensure_utf_8_mode()
    try:
        return run(sys.argv[1:])
    except KeyboardInterrupt:  # during the imports
        return 130


def run(arguments: Sequence[str]) -> int:
    """Run the command line, and return the exit code."""
    repair_streams()
    return run_to_end("ecp", lambda: _run_command(arguments))


def _run_command(arguments: Sequence[str]) -> int:
    parser = make_parser()
    if not arguments:
        parser.print_help(sys.stderr)
        return 2
    options = parser.parse_args(arguments)
    if isinstance(sys.stdout, io.TextIOWrapper):
        # Reports are UTF-8, whatever PYTHONIOENCODING says.
        sys.stdout.reconfigure(encoding="utf-8", errors="backslashreplace")
    command: Callable[[argparse.Namespace], int] = options.command
    return command(options)


def make_parser() -> Parser:
    """Make the parser of `ecp`, with each of its commands."""
    parser = Parser(prog="ecp", description=MAIN.description, epilog=MAIN.more)
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    _add_run(commands)
    _add_small(commands)
    _add_reports(commands)
    _add_agent(commands)
    return parser


def _command(
    commands: Any, name: str, function: Callable[[argparse.Namespace], int]
) -> argparse.ArgumentParser:
    page: Page = PAGES[name]
    added = add_command(commands, name, page)
    added.set_defaults(command=function)
    return added


def _add_run(commands: Any) -> None:
    run = _command(commands, "run", _run)
    run.add_argument("file", type=Path, nargs="?", metavar="MANIFEST", help="the manifest to run")
    option(run, "-m, --manifest FILE", "the manifest, as an option", type=Path)
    add = partial(option, run.add_argument_group("scenarios"))
    add(
        "--scenario NAME",
        "run only this scenario (patterns with * and ?)",
        action="append",
        default=[],
    )
    add("--exclude NAME", "exclude this scenario", action="append", default=[])
    add("--repeat N", "run each scenario N times", type=count, default=1)
    add("--jobs N", "run N scenarios in parallel processes", type=count, default=1)
    add("--dask ADDRESS", "run the scenarios on a Dask cluster")
    add("--fail-fast", "stop after a scenario that did not pass")
    add("--reuse-agent", "use one process for all scenarios, reset in between")
    add = partial(option, run.add_argument_group("results"))
    add("--verbose", "print each check")
    add("--json", "print the JSON report instead of the results")
    add("--report FILE", "write an HTML report", type=Path)
    add("--json-out FILE", "write the JSON report", type=Path)
    add("--junit FILE", "write a JUnit XML report", type=Path)
    add("--audit-out FILE", "write the audit record", type=Path)
    add("--redact", "omit inputs and answers from reports and results")
    add(
        "--fail-on-error",
        "exit with code 2 if a check fails (default: on)",
        action=argparse.BooleanOptionalAction,
        default=True,
    )
    _add_run_settings(run)


def _add_run_settings(run: argparse.ArgumentParser) -> None:
    add = partial(option, run.add_argument_group("limits"))
    add("--timeout S", _TIMEOUT, type=seconds)
    add("--start-timeout S", "limit of an agent's start (default: 30)", type=seconds, default=30.0)
    add("--scenario-timeout S", "limit of a scenario (default: none)", type=seconds)
    add(
        "--max-duration S",
        "limit of the run (default: the variable ECP_MAX_DURATION, else none)",
        type=seconds,
    )
    add(
        "--max-message-bytes N",
        "limit of a message (default: 16 MiB)",
        type=count,
        default=16 * 2**20,
    )
    _add_target_options(run.add_argument_group("target"))
    add = partial(option, run.add_argument_group("checks"))
    add("--allow-empty", "compare empty texts instead of failing their checks")
    add(
        "--nested-arguments",
        "comparison of objects in the arguments of tool_usage (default: exact)",
        choices=("exact", "subset"),
        default="exact",
    )
    add("--judge-cache FOLDER", "store verdicts of judges, and reuse them")
    add("--config-file FILE", "the server's configuration, for judges of its providers")


def _add_target_options(group: argparse._ArgumentGroup) -> None:
    option(group, "--shell", "the target is a line for sh")
    option(
        group,
        "--cwd",
        "the target's working folder: the current one, or the manifest's (default: caller)",
        choices=("caller", "manifest"),
        default="caller",
    )
    option(group, "--allow-outside", _ALLOW_OUTSIDE)


def _run(options: argparse.Namespace) -> int:
    if (options.file is None) is (options.manifest is None):
        got = "none" if options.file is None else "two"
        return fail("ecp run", f"expected one manifest, got {got}: `ecp run MANIFEST`", 2)
    options.manifest = options.manifest or options.file
    from eca_server.ecp.run_command import run_manifest  # noqa: PLC0415 - see the module's docstring

    if not options.manifest.is_file():
        return fail("ecp run", f"there is no file {printable_line(str(options.manifest))}", 2)
    try:
        options.timeout = options.timeout or _from_environment("ECP_RPC_TIMEOUT") or 30.0
        options.max_duration = options.max_duration or _from_environment("ECP_MAX_DURATION")
    except argparse.ArgumentTypeError as fault:
        return fail("ecp run", fault)
    return run_manifest(options)


def _from_environment(name: str) -> float | None:
    text = os.environ.get(name, "").strip()
    if not text:
        return None
    try:
        return seconds(text)
    except argparse.ArgumentTypeError as fault:
        raise argparse.ArgumentTypeError(f"{name}: {fault}") from None


def _add_small(commands: Any) -> None:
    validate = _command(commands, "validate", _validate)
    validate.add_argument("manifest", type=Path, metavar="MANIFEST", help="the manifest to check")
    _add_target_options(validate.add_argument_group("target, as for run"))
    init = _command(commands, "init", _init)
    init.add_argument(
        "folder",
        type=Path,
        nargs="?",
        default=Path("ecp_eval"),
        metavar="DIR",
        help="the folder to write to (default: ecp_eval)",
    )
    option(init, "--force", "replace existing files")
    _command(commands, "doctor", _doctor)
    schema = _command(commands, "schema", _schema)
    schema.add_argument("name", choices=SCHEMAS, help="the schema to print")
    conformance = _command(commands, "conformance", _conformance)
    option(conformance, "-t, --target TARGET", "a command or a URL", required=True)
    option(conformance, "--input INPUT", "input of each step (default: hello)", default="hello")
    option(conformance, "--json", "print the findings as JSON")
    option(conformance, "--json-out FILE", "write the findings as JSON", type=Path)
    option(
        conformance, "--timeout S", "limit of a request (default: 30)", type=seconds, default=30.0
    )
    option(conformance, "--shell", "the target is a line for sh")


def _validate(options: argparse.Namespace) -> int:
    from eca_server.ecp.datasets import load_datasets  # noqa: PLC0415 - see above
    from eca_server.ecp.manifest.model import ManifestInvalid  # noqa: PLC0415 - see above
    from eca_server.ecp.manifest.reading import load_manifest  # noqa: PLC0415 - see above
    from eca_server.ecp.target import find_target  # noqa: PLC0415 - see above

    try:
        manifest = load_manifest(options.manifest)
        manifest = load_datasets(manifest, os.environ, allow_outside=options.allow_outside)
        cwd = None if options.cwd == "manifest" else Path.cwd()
        find_target(manifest, cwd, shell=options.shell, finds_script=True)
    except OSError as fault:
        reason = printable_line(f"{options.manifest}: {fault.strerror or fault}")
        return fail("ecp validate", f"could not read {reason}", 2)
    except ManifestInvalid as fault:
        sys.stderr.write(f"{printable_lines(str(fault))}\n")
        return 1
    for warning in manifest.warnings:
        sys.stderr.write(f"warning: {printable_lines(str(warning))}\n")
    steps = [step for scenario in manifest.scenarios for step in scenario.steps]
    graders = sum(len(step.graders) for step in steps)
    counts = {"scenario": len(manifest.scenarios), "step": len(steps), "grader": graders}
    texts = (f"{number} {what}{'' if number == 1 else 's'}" for what, number in counts.items())
    sys.stdout.write(f"{printable_line(manifest.name)}: {', '.join(texts)}\n")
    return 0


def _init(options: argparse.Namespace) -> int:
    from eca_server.ecp.starter import write_starter  # noqa: PLC0415 - see above

    try:
        agent, manifest = write_starter(options.folder, force=options.force)
    except (OSError, ValueError) as fault:
        return fail("ecp init", fault)
    sys.stdout.write(f"{agent}\n{manifest}\nNext: ecp run {shlex.quote(str(manifest))}\n")
    return 0


def _doctor(_: argparse.Namespace) -> int:
    from eca_server.ecp.doctor import describe_installation  # noqa: PLC0415 - see above

    sys.stdout.write(describe_installation(os.environ))
    return 0


def _schema(options: argparse.Namespace) -> int:
    from eca_protocol.ecp.schema import schema_text  # noqa: PLC0415 - see above

    sys.stdout.write(schema_text(options.name))
    return 0


def _conformance(options: argparse.Namespace) -> int:
    from eca_server.ecp.agent_conformance import run_conformance  # noqa: PLC0415 - see above

    return run_conformance(options)


def _add_reports(commands: Any) -> None:
    compare = _command(commands, "compare", _compare)
    compare.add_argument("before", type=Path, metavar="A", help="the earlier report")
    compare.add_argument("after", type=Path, metavar="B", help="the later report")
    option(compare, "--json", "print the comparison as JSON")
    option(compare, "--exit-on-regression", "exit code 2 if a check got worse")
    trend = _command(commands, "trend", _trend)
    trend.add_argument("files", nargs="+", metavar="FILE", help="JSON reports, or patterns of them")
    option(trend, "-w, --window N", "use the last N reports (default: 20)", type=count, default=20)
    option(trend, "--exit-on-regression", "exit code 2 if the pass rate falls")
    option(trend, "--verbose", "print each report's pass rate")


def _compare(options: argparse.Namespace) -> int:
    from eca_server.ecp.compare import compare  # noqa: PLC0415 - see above

    try:
        before, after = _report(options.before), _report(options.after)
    except ValueError as fault:
        return fail("ecp compare", fault)
    comparison = compare(before, after)
    if options.json:
        sys.stdout.write(f"{json.dumps(comparison.to_json(), indent=2)}\n")
    else:
        sys.stdout.write(comparison.text())
    return 2 if comparison.regressed and options.exit_on_regression else 0


def _trend(options: argparse.Namespace) -> int:
    from glob import iglob  # noqa: PLC0415 - see above

    from eca_server.ecp.trend import compute_trend  # noqa: PLC0415 - see above

    reports, faults = [], []
    patterns = (iglob(each, recursive=True) for each in options.files)  # noqa: PTH207 - absolute
    for name in sorted({name for names in patterns for name in names}):
        try:
            reports.append((name, _report(Path(name))))
        except ValueError as fault:
            faults.append(f"{fault}\n")
    sys.stderr.write(printable_lines("".join(faults)))
    if not reports:
        return fail("ecp trend", f"no report matches {printable_line(' '.join(options.files))}")
    trend = compute_trend(reports, window=options.window)
    sys.stdout.write(trend.text(verbose=options.verbose))
    return 2 if trend.regressed and options.exit_on_regression else 0


def _report(file: Path) -> Any:
    from eca_server.ecp.results import RunReport  # noqa: PLC0415 - see above

    try:
        data = file.read_bytes()
    except OSError as fault:
        raise ValueError(f"could not read {file}: {fault.strerror or fault}") from fault
    try:
        return RunReport.from_json(json.loads(data))
    except (ValueError, TypeError, KeyError, RecursionError) as fault:
        raise ValueError(f"{file} is not a report: {fault}") from fault


def _add_agent(commands: Any) -> None:
    agent = _command(commands, "agent", _agent)
    option(agent, "--model PROVIDER/MODEL", "model of each prompt (default: the configured one)")
    option(agent, "--behavior NAME", "agent of each prompt (default: the configured one)")
    option(agent, "--approve", "approve calls that need approval")
    option(agent, "--config-file FILE", "use this configuration instead of your own", type=Path)
    option(agent, "--workspace DIR", "the workspace (default: .)", type=Path, default=Path())
    option(
        agent,
        "--http PORT",
        "serve over HTTP at this port instead of stdio (0: a free port)",
        type=port,
    )


def _agent(options: argparse.Namespace) -> int:
    from eca_server.ecp.chat_agent import serve_chat  # noqa: PLC0415 - see above

    return serve_chat(options)
