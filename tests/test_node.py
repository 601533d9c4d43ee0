import os
import subprocess

from tests.node import node, node_modules


def test_the_foreign_peer_can_be_loaded() -> None:
    environ = {**os.environ, "NODE_PATH": str(node_modules())}
    script = "console.log(typeof require('vscode-jsonrpc/node').createMessageConnection)"
    output = subprocess.check_output([node(), "-e", script], env=environ, text=True)
    assert output == "function\n"
