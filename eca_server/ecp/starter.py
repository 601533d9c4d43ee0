"""`ecp init`: an agent and a manifest to begin with, which pass as they are."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import Final

__all__ = ["write_starter"]

_AGENT: Final = '''\
"""An agent to begin with: it answers by repeating, and says which tool it used."""

from eca_protocol.ecp import Result, agent, on_step, serve_stdio


@agent(name="starter", capabilities={"tool_calls": {}, "evaluation_context": {}})
class Starter:
    def __init__(self) -> None:
        self.heard = 0

    @on_step
    def answer(self, text: str) -> Result:
        self.heard += 1
        return Result(
            public_output=f"You said: {text}",
            evaluation_context=f"input number {self.heard}",
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
  - name: It repeats what it hears
    steps:
      - input: Good morning
        graders:
          - {type: text_match, condition: contains, value: Good morning}
          - {type: tool_usage, tool_name: repeat, arguments: {text: Good morning}}
      - input: Again
        graders:
          - {type: text_match, field: evaluation_context, condition: equals, value: input number 2}
"""


def write_starter(folder: Path, *, force: bool) -> tuple[Path, Path]:
    """Write `agent.py` and `manifest.yaml` into `folder`; their paths.

    Raises:
        FileExistsError: one of them is there, and `force` is not given.
        OSError: they cannot be written.
        ValueError: no manifest can name the folder.
    """
    agent, manifest = folder / "agent.py", folder / "manifest.yaml"
    target = shlex.join([sys.executable, str(agent.resolve())])
    try:
        target.encode()
    except UnicodeEncodeError:
        raise ValueError(f"no manifest can name {str(agent)!r}: its name is no UTF-8") from None
    folder.mkdir(parents=True, exist_ok=True)
    if not force:
        for file in (agent, manifest):
            if file.exists():
                raise FileExistsError(f"{file} is there already; --force replaces it")
    quoted = target.replace("'", "''")
    agent.write_text(_AGENT, "utf-8")
    manifest.write_text(_MANIFEST % f"'{quoted}'", "utf-8")
    return agent, manifest
