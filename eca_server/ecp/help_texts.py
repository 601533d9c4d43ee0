"""The help of `ecp`: a page for each command."""

from __future__ import annotations

from typing import Final

from eca_server.system.command_line import Page

MAIN: Final = Page(
    "evaluate agents (the same as the command `ecp`)",
    """\
Evaluate agents by the Evaluation Context Protocol. A manifest lists the inputs for an
agent and the checks of its answers. Results go to standard output, progress and errors
to standard error.
""",
    """\
Examples:
  # Write an example agent and its manifest, and run it
  $ ecp init
  $ ecp run ecp_eval/manifest.yaml

Exit codes:
  0    every check passed
  1    the manifest or an output cannot be used
  2    a check failed, a step had no result, there was nothing to check, or wrong
       usage, such as a missing manifest
  130, 143
       ended by a signal, with a report of the scenarios until then

`ecp COMMAND --help` prints the options, examples and variables of a command.
""",
)

PAGES: Final = {
    "run": Page(
        "run a manifest's scenarios and check the results",
        """\
Start the target of a manifest for each scenario, send it the inputs, and check its
answers. Each scenario is a line on standard output with the reasons of its failed
checks; on a terminal only failed ones are. The last line is the summary.
""",
        """\
Examples:
  # Run a manifest
  $ ecp run ecp_eval/manifest.yaml

  # Write an HTML page, and a report for a CI server
  $ ecp run ecp_eval/manifest.yaml --report report.html --junit results.xml

  # Find flaky scenarios: five repetitions in two processes
  $ ecp run ecp_eval/manifest.yaml --repeat 5 --jobs 2

  # Run some scenarios, and print each check
  $ ecp run ecp_eval/manifest.yaml --scenario 'It repeats*' --verbose

Exit codes:
  0    every check passed, or --no-fail-on-error
  1    the manifest or an output cannot be used
  2    a check failed, a step had no result, there was nothing to check, or wrong usage
  130, 143
       ended by a signal, with a report of the scenarios until then

Environment:
  ECP_RPC_TIMEOUT, ECP_MAX_DURATION
       defaults of --timeout and --max-duration, in seconds
  ECP_LLM_JUDGE_MODEL, ECP_LLM_JUDGE_TEMPERATURE, ECP_LLM_JUDGE_TIMEOUT
       the model of llm_judge (default: gpt-4o-mini), its temperature, its limit
  ECP_LLM_JUDGE_API_KEY, OPENAI_API_KEY, OPENAI_BASE_URL
       key and URL of that model; the first one is hidden from the agent
  ECP_TEXT_MATCH_EMPTY
       allow: as --allow-empty
  NO_COLOR
       no colours
""",
    ),
    "validate": Page(
        "check a manifest without running it",
        """\
Check a manifest, its datasets and its target, and print each error with its line and
column. The agent is not started: its command must be on PATH, a script that Python or
Node.js would run must exist, and each ${env:NAME} must be set.
""",
        """\
Examples:
  $ ecp validate ecp_eval/manifest.yaml

Exit codes:
  0    the manifest can be run
  1    it has errors
  2    it cannot be read, or wrong usage
""",
    ),
    "init": Page(
        "write an example agent and its manifest",
        "Write agent.py and manifest.yaml into a folder. Existing files stay unless --force.\n",
        """\
Examples:
  # Write to ./ecp_eval
  $ ecp init

  # Write to another folder
  $ ecp init support

Exit codes:
  0    written
  1    a file exists or cannot be written
""",
    ),
    "doctor": Page(
        "print the installation and settings for evaluating agents",
        """\
Print versions, the judge of llm_judge with its variables (never a key's value), and the
installed graders.
""",
        "Examples:\n  $ ecp doctor\n\nExit codes:\n  0    printed\n  2    wrong usage\n",
    ),
    "schema": Page(
        "print a JSON Schema",
        "Print the JSON Schema of a file, with which an editor can check and complete it.\n",
        """\
Examples:
  $ ecp schema manifest > manifest.schema.json

Exit codes:
  0    printed
  2    wrong usage
""",
    ),
    "conformance": Page(
        "check an agent's conformance to the protocol",
        """\
Start an agent, or connect to its URL, and check its answers to each method of the
protocol, also to invalid ones. Each finding is a line on standard output.
""",
        """\
Examples:
  # Check a command
  $ ecp conformance --target "python3 ecp_eval/agent.py"

  # Write the findings as JSON
  $ ecp conformance --target "python3 ecp_eval/agent.py" --json-out findings.json

Exit codes:
  0    it conforms
  1    it does not, or the target or an output cannot be used
  2    wrong usage
""",
    ),
    "compare": Page(
        "compare two JSON reports",
        """\
Print the checks that passed in one report and failed in the other one, and the changes
of durations and usage. `ecp run --json-out FILE` writes a report.
""",
        """\
Examples:
  $ ecp run ecp_eval/manifest.yaml --json-out before.json
  $ ecp run ecp_eval/manifest.yaml --json-out after.json
  $ ecp compare before.json after.json --exit-on-regression

Exit codes:
  0    compared
  1    a report cannot be read
  2    --exit-on-regression, and a check got worse or the later run was interrupted;
       or wrong usage
""",
    ),
    "trend": Page(
        "show the trend of the pass rate over many JSON reports",
        """\
Fit a line to the pass rates of reports, in the order of their runs' starts.
""",
        """\
Examples:
  $ ecp run ecp_eval/manifest.yaml --json-out report-1.json
  $ ecp trend report-*.json --verbose

Exit codes:
  0    printed
  1    no report matches
  2    --exit-on-regression and the pass rate falls, or wrong usage
""",
    ),
    "agent": Page(
        "serve this server's chat as an agent",
        """\
Serve the chat of this server as an agent: over stdin and stdout, or over HTTP. A call
that needs approval is rejected unless --approve.
""",
        """\
Examples:
  # As the target of a manifest: target: ecp agent --model simulator/echo
  $ ecp conformance --target "ecp agent --model simulator/echo"

Exit codes:
  0    the evaluator closed its end
  1    it cannot be served, such as at a port in use
  130, 143
       ended by a signal
""",
    ),
}
