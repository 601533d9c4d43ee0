"""Agents for the tests, as files that are run; the bad ones need nothing but the interpreter."""

from __future__ import annotations

import sys
from collections.abc import Sequence

SCRIPT = """
import sys, json, os, time, signal, subprocess
stdin, out = sys.stdin.buffer, sys.stdout.buffer
def raw(data):
    out.write(data); out.flush()
def line(value):
    raw(json.dumps(value).encode() + b"\\n")
def answer(request, result):
    line({"jsonrpc": "2.0", "id": request["id"], "result": result})
def hello(request):
    answer(request, {"name": "bad", "capabilities": {}})
def done(request, text="ok", **more):
    answer(request, {"status": "done", "public_output": text, **more})
def read():
    text = stdin.readline()
    if not text:
        sys.exit(0)
    return json.loads(text)
"""


def script(body: str) -> Sequence[str]:
    """The command of an agent that runs `body` after the words above."""
    return [sys.executable, "-S", "-E", "-c", SCRIPT + body]


def stepping(body: str) -> Sequence[str]:
    """The command of an agent that introduces itself, then runs `body` for each step `r`."""
    indented = "\n".join(f"    {row}" for row in body.splitlines())
    return script(f"hello(read())\nwhile True:\n    r = read()\n{indented}\n")
