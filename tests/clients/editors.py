"""Requests of real editors, byte for byte, and the frames around them."""

import json
from typing import Any

from tests.eca_server.stranger import Stranger

VSCODE = b"""{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"processId":null,\
"clientInfo":{"name":"VsCode","version":"XXX"},"capabilities":{"codeAssistant":{"chat":true,\
"rewrite":true,"chatCapabilities":{"askQuestion":true},"editor":{"diagnostics":true,\
"definition":true,"references":true}}},"initializationOptions":{},"workspaceFolders":[\
{"name":"project","uri":"%b"}]}}"""
EMACS = b"""{"jsonrpc":"2.0","method":"initialize","id":1,"params":{"processId":null,\
"clientInfo":{"name":"emacs","version":"GNU Emacs 28.2"},"capabilities":{"codeAssistant":\
{"chat":true,"chatCapabilities":{"askQuestion":true},"editor":{"diagnostics":true,\
"definition":true,"references":true}}},"initializationOptions":{"chatAgent":null},\
"workspaceFolders":[{"uri":"%b","name":"project"}]}}
"""

NEOVIM = b"""{"id":1,"method":"initialize","jsonrpc":"2.0","params":{"capabilities":{\
"codeAssistant":{"chat":true}},"processId":null,"clientInfo":{"version":"0.11","name":"Neovim"},\
"workspaceFolders":[{"uri":"%b","name":"project"}]}}"""


def send(server: Stranger, body: bytes) -> None:
    """Write a body as the editors frame theirs; Emacs counts the line end behind it."""
    server.write(b"Content-Length: %d\r\n\r\n%b" % (len(body), body))


def answer(server: Stranger, body: bytes) -> Any:
    """The answer to a request."""
    send(server, body)
    return server.answer(json.loads(body)["id"])


def configured(**config: Any) -> dict[str, str]:
    """The variable with a configuration; nothing is asked over the network."""
    return {"ECA_CONFIG": json.dumps({"catalog": {"refresh": False}, **config})}
