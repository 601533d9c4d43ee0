"""Shell completion: the scripts, as the shells run them."""

import shutil
import subprocess

import pytest

from eca_server.cli.completion import completion_script
from tests.eca_server.processes import run_to_end

LINES = {
    "eca-server ch": ["chat"],
    "eca-server chat --mod": ["--model"],
    "eca-server serve --log-level wa": ["warning", "warn"],
    "eca-server config ": ["init", "schema", "-h", "--help"],
    "eca-server ecp run --jun": ["--junit"],
    "eca-server trust a": ["add"],
    "eca-server conformance --only x --jo": ["--jobs"],
    "eca-server inspect --no": ["--no-open"],
    "ecp run m.yaml --rep": ["--report", "--repeat"],
    "ecp schema man": ["manifest"],
    "ecp run --report ": [],
}


def test_bash_completes_commands_options_and_their_values() -> None:
    script = completion_script("bash")
    for line in LINES:
        program = line.split()[0].replace("-", "_")
        words = " ".join(f'"{word}"' for word in line.split(" "))
        script += (
            f"COMP_WORDS=({words}) COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1))\n"
            f'_{program}_complete; echo "${{COMPREPLY[@]}}"\n'
        )
    done = run_to_end(["bash", "-uc", script])
    assert done.stderr == ""
    completed = [line.split() for line in done.stdout.splitlines()]
    assert list(map(sorted, completed)) == list(map(sorted, LINES.values()))


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_a_script_names_each_command_and_is_valid(shell: str) -> None:
    script = completion_script(shell)
    for word in ("chat", "doctor", "log-level", "junit", "no-open", "badge"):
        assert word in script
    assert shell != "fish" or "_from config' -a 'init schema'\n" in script
    if shutil.which(shell) is not None:
        subprocess.run([shell, "-n", "-c", script], check=True)
