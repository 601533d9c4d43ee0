"""`eca-server config init`: a commented configuration file to begin with."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping

from eca_server.config.directories import make_private_directory, user_directory
from eca_server.printable import printable_line
from eca_server.system.command_line import fail

STARTER = """\
// The configuration of ECA: JSON with comments. Every setting is optional.
// `eca-server config schema` prints all of them; `eca-server doctor` checks this file.
{
  // The model of a prompt that names none, as PROVIDER/MODEL.
  // "defaultModel": "anthropic/claude-sonnet-4-5",

  // Known providers need only a key: set ANTHROPIC_API_KEY, OPENAI_API_KEY or the like, or
  // send /login in a chat. Any endpoint of a known API works, too:
  // "providers": {
  //   "local": {
  //     "api": "openai-chat",
  //     "url": "http://127.0.0.1:11434/v1",
  //     "models": {"qwen3": {}}
  //   }
  // },

  // Tools that run without approval.
  // "toolCall": {"approval": {"allow": {"eca_read_file": {}}}},

  // MCP servers, whose tools the model can call.
  // "mcpServers": {"time": {"command": "uvx", "args": ["mcp-server-time"]}}
}
"""


def write_starter(environ: Mapping[str, str]) -> int:
    """Write the user's configuration file unless it exists, and return the exit code."""
    file = user_directory(environ) / "config.json"
    shown = printable_line(str(file))
    try:
        make_private_directory(file.parent)
        descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            with os.fdopen(descriptor, "w", encoding="utf-8") as out:
                out.write(STARTER)
        except OSError:
            file.unlink()  # otherwise it stays empty, also when the disk has space again
            raise
    except FileExistsError:
        return fail("eca-server", f"{shown} exists and was not changed: edit it")
    except OSError as error:
        return fail("eca-server", f"could not write {shown}: {error.strerror or error}")
    sys.stdout.write(f"{shown}\nNext: edit it, then check it with `eca-server doctor`.\n")
    return 0
