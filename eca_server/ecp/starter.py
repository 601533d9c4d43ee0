"""`ecp init`: an example agent with its manifest, all of whose checks pass."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import Final

from eca_server.workbench.report_files import write_file

_AGENT: Final = '''\
"""An example agent: it repeats its input and reports a tool call."""

from eca_protocol.ecp import Result, agent, on_step, serve_stdio


@agent(name="starter", capabilities={"tool_calls": {}, "evaluation_context": {}})
class Starter:
    def __init__(self) -> None:
        self.count = 0

    @on_step
    def answer(self, text: str) -> Result:
        self.count += 1
        return Result(
            public_output=f"You said: {text}",
            evaluation_context=f"input number {self.count}",
            tool_calls=[{"name": "repeat", "arguments": {"text": text}}],
        )


if __name__ == "__main__":
    serve_stdio(Starter)
'''

_MANIFEST: Final = """\
manifest_version: v1
name: Starter
target: %s
scenarios:
  - name: It repeats its input
    steps:
      - input: Good morning
        graders:
          - {type: text_match, condition: contains, value: Good morning}
          - {type: tool_usage, tool_name: repeat, arguments: {text: Good morning}}
      - input: Again
        graders:
          - {type: text_match, field: evaluation_context, condition: equals, value: input number 2}
"""


def write_starter(directory: Path, *, force: bool) -> tuple[Path, Path]:
    """Write `agent.py` and `manifest.yaml`, and return their paths.

    Raises:
        FileExistsError: a file exists, and `force` is false.
        OSError: a file cannot be written.
        ValueError: the directory's path is not UTF-8, so a manifest cannot name it.
    """
    agent, manifest = directory / "agent.py", directory / "manifest.yaml"
    target = shlex.join([sys.executable, str(agent.resolve())])
    try:
        target.encode()
    except UnicodeEncodeError:
        raise ValueError(f"a manifest cannot name {str(agent)!r}: it is not UTF-8") from None
    directory.mkdir(parents=True, exist_ok=True)
    if not force:
        for file in (agent, manifest):
            if file.exists():
                raise FileExistsError(f"{file} exists; --force replaces it")
    quoted = target.replace("'", "''")
    write_file(agent, _AGENT)
    write_file(manifest, _MANIFEST % f"'{quoted}'")
    return agent, manifest
