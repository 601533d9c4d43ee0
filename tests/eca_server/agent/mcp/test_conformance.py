"""Our MCP client against the official conformance suite for clients.

The suite plays the server, over HTTP; `conformance_client.py` is what it starts. It judges what was
sent, and how the client left.
"""

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import pytest

from tests.eca_server.processes import run_to_end
from tests.node import node, node_modules

CLIENT = Path(__file__).with_name("conformance_client.py")

AUTH: Final = (
    *("metadata-default", "metadata-var1", "metadata-var2", "metadata-var3"),
    *("scope-from-www-authenticate", "scope-from-scopes-supported"),
    *("scope-omitted-when-undefined", "scope-step-up", "scope-retry-limit"),
    *("token-endpoint-auth-basic", "token-endpoint-auth-post", "token-endpoint-auth-none"),
    *("pre-registration", "2025-03-26-oauth-metadata-backcompat"),
    *("2025-03-26-oauth-endpoint-fallback", "resource-mismatch", "offline-access-scope"),
    *("offline-access-not-supported", "authorization-server-migration", "iss-supported"),
    *("iss-not-advertised", "iss-supported-missing", "iss-wrong-issuer", "iss-unexpected"),
    *("iss-normalized", "metadata-issuer-mismatch"),
)
PASSED: Final = (
    *("initialize", "tools_call", "sse-retry", "request-metadata", "http-standard-headers"),
    *("http-custom-headers", "http-invalid-tool-headers", "json-schema-ref-no-deref"),
    "json-schema-2020-12-preservation",
    *(f"auth/{name}" for name in AUTH),
)
EXTENSIONS: Final = (
    *("auth/enterprise-managed-authorization", "auth/dpop", "auth/dpop-nonce"),
    *("auth/wif-jwt-bearer", "sep-2640-client-no-prefetch", "sep-2640-client-verify-digest"),
    *("sep-2640-client-verify-size", "sep-2640-client-verify-frontmatter"),
)
NOT_FOR_US: Final[Mapping[str, str]] = {
    **dict.fromkeys(EXTENSIONS, "an extension"),
    "elicitation-sep1034-client-defaults": "no elicitation is declared",
    "sep-2322-client-request-state": "it asks by elicitation, which is not declared",
    "auth/basic-cimd": "no document about this client is published anywhere",
    "auth/client-credentials-jwt": "an extension: nobody logs in",
    "auth/client-credentials-basic": "an extension: nobody logs in",
}


def suite(*arguments: str) -> subprocess.CompletedProcess[str]:
    program = node_modules() / "@modelcontextprotocol" / "conformance" / "dist" / "index.js"
    environment = {**os.environ, "PYTHONPATH": os.fspath(Path.cwd())}
    return run_to_end([node(), str(program), *arguments], env=environment)


@pytest.mark.long
def test_every_scenario_of_the_suite_is_passed_or_is_not_for_us():
    listed = [line.split()[1] for line in suite("list", "--client").stdout.splitlines()[1:]]
    assert sorted(listed) == sorted((*PASSED, *NOT_FOR_US))


@pytest.mark.long
@pytest.mark.parametrize("scenario", PASSED)
def test_the_suite_is_content(scenario, tmp_path):
    command = shlex.join([sys.executable, str(CLIENT)])
    older = ("--spec-version", "2025-03-26") if "2025-03-26" in scenario else ()
    arguments = ("--command", command, "--scenario", scenario, *older, "-o", str(tmp_path))
    done = suite("client", *arguments)
    errors = "\n".join(file.read_text() for file in tmp_path.rglob("stderr.txt"))
    assert done.returncode == 0, done.stdout + done.stderr + errors


HERE = Path(__file__).parent
ROW = re.compile(r"(?m)^(\d+)\. .+\n((?:   - .+\n)+)")
ONLY_ON_WINDOWS = 4


def test_every_misbehaviour_has_its_tests():
    rows = ROW.findall((HERE / "MISBEHAVIOURS.md").read_text("utf-8"))
    assert [int(number) for number, _ in rows] == list(range(1, len(rows) + 1))
    assert len(rows) >= 82
    lacking = []
    for number, below in rows:
        tests = re.findall(r"- `(.+)` (test_\w+)", below)
        for file, name in tests:
            text = (HERE / file).read_text("utf-8")
            if not re.search(rf"(?m)^(async )?def {name}\(", text):
                lacking.append(f"{number}: {file} has no {name}")
        if not tests and int(number) != ONLY_ON_WINDOWS:
            lacking.append(f"{number}: no test")
    assert lacking == []
