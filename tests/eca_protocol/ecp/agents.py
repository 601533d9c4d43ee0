"""Agents for the tests, as scripts; they import only the standard library."""

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
    """Return the command of an agent that runs `body` after `SCRIPT`."""
    return [sys.executable, "-S", "-E", "-c", SCRIPT + body]


def stepping(body: str) -> Sequence[str]:
    """Return the command of an agent that runs `body` for each step `r`."""
    indented = "\n".join(f"    {row}" for row in body.splitlines())
    return script(f"hello(read())\nwhile True:\n    r = read()\n{indented}\n")


PROTOCOL, TRANSPORT = "protocol_error", "transport_error"
HEAD = '{"jsonrpc": "2.0", "id": 2, '
BROKEN: dict[str, tuple[str, str, str]] = {
    "no answer": ("read()", "timeout", "no answer in 0.2 s"),
    "exit": ("sys.exit(3)", TRANSPORT, "exit code 3"),
    "killed": ("os.kill(os.getpid(), 9)", TRANSPORT, "ended by SIGKILL"),
    "last words": ("sys.exit('my fault')", TRANSPORT, "my fault"),
    "closed output": ("os.close(1); read()", TRANSPORT, "the agent closed its output"),
    "wrong id": ("r['id'] = 99; done(r)", PROTOCOL, "an answer with the id 99, expected 2"),
    "id as text": ("r['id'] = '2'; done(r)", PROTOCOL, "id '2', expected 2"),
    "id as float": ("r['id'] = 2.0; done(r)", PROTOCOL, "id 2.0, expected 2"),
    "no id": ("line({'jsonrpc': '2.0', 'result': 1})", PROTOCOL, "id None"),
    "cut line": (f"raw(b'{HEAD}\"res\\n')", PROTOCOL, "not strict JSON"),
    "not a number": ("done(r, usage={'n': float('nan')})", PROTOCOL, "not strict JSON"),
    "equal keys": (f'raw(b\'{HEAD}"id": 2, "result": 1}}\\n\')', PROTOCOL, "not strict JSON"),
    "broken text": (f'raw(b\'{HEAD}"result": "\\xff"}}\\n\')', PROTOCOL, "not strict JSON"),
    "too long": ("raw(b'{' + b' ' * 70000 + b'}')", PROTOCOL, "a line of more than 65536 bytes"),
    "an array": (f"raw(b'[{HEAD}\"result\": 1}}]\\n')", PROTOCOL, "an array of answers"),
    "both": (
        "line({'jsonrpc': '2.0', 'id': 2, 'result': 1, 'error': None})",
        PROTOCOL,
        "one of result and error, got both",
    ),
    "no version": ("line({'id': 2, 'result': 1})", PROTOCOL, 'jsonrpc: expected "2.0"'),
    "true as a code": (
        "line({'jsonrpc': '2.0', 'id': 2, 'error': {'code': True, 'message': ''}})",
        PROTOCOL,
        "error.code: expected an integer",
    ),
    "a wrong type": (
        "answer(r, {'status': 'done', 'public_output': 3})",
        PROTOCOL,
        "result.public_output: expected a string or null, got 3",
    ),
    "its own error": (
        "line({'jsonrpc': '2.0', 'id': 2, 'error': {'code': 5, 'message': 'no'}})",
        "agent_error",
        "no (5)",
    ),
}
"""Steps that break the protocol: the agent's code, the kind of the error, part of its message."""

OK = "json.dumps({'jsonrpc': '2.0', 'id': r['id'], 'result': "
OK += "{'status': 'done', 'public_output': 'ok'}}).encode()"
ODD: dict[str, str] = {
    "noise": "print('loading', flush=True); line([1]); line(7); line({'level': 'info'}); done(r)",
    "notifications": "line({'jsonrpc': '2.0', 'method': 'log', 'params': {}}); done(r)",
    "a second answer": "done(r); done(r, 'again')",
    "blank lines": "raw(b'\\r\\n\\n  \\n'); done(r)",
    "carriage returns": f"raw({OK} + b'\\r\\n')",
    "one byte at a time": f"for b in {OK} + b'\\n': raw(bytes([b]))",
    "floods of its log": "sys.stderr.write('x' * 300000); sys.stderr.flush(); done(r)",
    "unknown fields": "done(r, mood='fine')",
    "printing before it reads": "raw((b'x' * 99 + b'\\n') * 800); done(r)",
    "a question": "line({'jsonrpc': '2.0', 'id': 'q', 'method': 'ask'}); "
    "assert read()['error']['code'] == -32601; done(r)",
}
"""Steps that are unusual but allowed."""
