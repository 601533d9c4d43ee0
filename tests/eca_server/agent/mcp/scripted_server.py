"""An MCP server on standard input and output that behaves, or does not, as a JSON script says.

Run as `python scripted_server.py SCRIPT`, where SCRIPT is a JSON object:

- `at_start`: steps before the first line is read;
- `on`: by method, the steps for each message of that method; what has none is answered as a
  decent server would;
- `at_end`: steps when the input has ended.

A step is an array: a name and what it is given.

- To the output: `["say", VALUE]` writes a JSON line, in which `"$id"` stands for the id of the
  message that is dealt with; `["result", VALUE]` and `["error", CODE, TEXT, DATA]` answer it,
  `["big", LENGTH]` with a long text; `["line", TEXT]` writes a line as it is, `["raw", LATIN1]`
  bytes without a line end.
- To the error output: `["stderr", TEXT]`; `["echo_message"]` what is dealt with;
  `["echo_answer"]` what was read last; `["environment", NAME]`, `["where"]`, `["pid"]`.
- From the input: `["read_until", METHOD]`, `["read_answer", ID]`; then `["answer_that", VALUE]`.
- Time: `["wait_for", PATH]`, `["sleep", SECONDS]`, `["hang"]`.
- Ends: `["idle"]` reads nothing until its input is closed, and ends then; `["exit", CODE]`,
  `["kill"]`, `["close_stdin"]`, `["close_stdout"]`, `["ignore_term"]`;
  `["child", SECONDS, {"leaves": bool}]` starts a grandchild that holds the pipes, and may leave
  the process group.
- `["repeat", TIMES, STEP]`, `["both", STEP, ...]`.
"""

import json
import os
import select
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

INFO = {
    "protocolVersion": "2025-11-25",
    "capabilities": {"tools": {}, "prompts": {}, "resources": {}},
    "serverInfo": {"name": "scripted", "version": "1"},
    "instructions": "Be scripted.",
}
DECENT = {
    "initialize": INFO,
    "ping": {},
    "tools/list": {"tools": [{"name": "echo", "inputSchema": {"type": "object"}}]},
    "tools/call": {"content": [{"type": "text", "text": "called"}]},
    "prompts/list": {"prompts": []},
    "resources/list": {"resources": []},
    "resources/templates/list": {"resourceTemplates": []},
}


class Server:
    def __init__(self, script):
        self.script = script
        self.message = {}
        self.answer = None

    def read(self):
        line = sys.stdin.buffer.readline()
        return json.loads(line) if line else None

    def write(self, data):
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()

    def do_say(self, value):
        self.do_line(json.dumps(value))

    def run(self, steps):
        for name, *arguments in steps:
            getattr(self, f"do_{name}")(*arguments)

    def serve(self):
        self.run(self.script.get("at_start", []))
        while (message := self.read()) is not None:
            self.message = message
            method = message.get("method")
            if method in self.script.get("on", {}):
                self.run(self.script["on"][method])
            elif "id" in message and method in DECENT:
                self.do_result(DECENT[method])
            elif "id" in message and method is not None:
                self.do_error(-32601, f"no {method}")
        self.run(self.script.get("at_end", []))

    def do_sleep(self, seconds):
        time.sleep(seconds)

    def do_both(self, *steps):
        self.run(steps)

    def do_answer_that(self, value):
        self.do_say({"jsonrpc": "2.0", "id": self.answer["id"], "result": value})

    def do_result(self, value):
        self.do_say({"jsonrpc": "2.0", "id": "$id", "result": value})

    def do_error(self, code, text, data=None):
        error = {"code": code, "message": text, "data": data}
        self.do_say({"jsonrpc": "2.0", "id": "$id", "error": error})

    def do_line(self, text):
        self.write(text.replace('"$id"', json.dumps(self.message.get("id"))).encode() + b"\n")

    def do_raw(self, latin1):
        self.write(latin1.encode("latin-1"))

    def do_stderr(self, text):
        sys.stderr.write(text + "\n")
        sys.stderr.flush()

    def do_repeat(self, times, step):
        for _ in range(times):
            self.run([step])

    def do_big(self, length):
        self.do_result({"content": [{"type": "text", "text": "x" * length}]})

    def do_read_until(self, method, request_id=None):
        while (message := self.read()) is not None:
            if message.get("method") == method and request_id in (None, message.get("id")):
                break
        self.answer = message

    def do_read_answer(self, request_id):
        self.do_read_until(None, request_id)

    def do_echo_message(self):
        self.do_stderr(json.dumps(self.message))

    def do_environment(self, name):
        self.do_stderr(f"{name}={os.environ.get(name)!r}")

    def do_where(self):
        self.do_stderr(str(Path.cwd()))

    def do_echo_answer(self):
        self.do_stderr(json.dumps(self.answer))

    def do_pid(self):
        self.do_stderr(f"pid {os.getpid()}")

    def do_wait_for(self, path):
        while not Path(path).exists():
            time.sleep(0.01)

    def do_hang(self):
        threading.Event().wait()

    def do_idle(self):
        closing = select.poll()
        closing.register(0, 0)
        closing.poll()
        os._exit(0)

    def do_exit(self, code):
        os._exit(code)

    def do_kill(self):
        os.kill(os.getpid(), signal.SIGKILL)

    def do_close_stdin(self):
        os.close(0)

    def do_close_stdout(self):
        os.close(1)

    def do_ignore_term(self):
        signal.signal(signal.SIGTERM, signal.SIG_IGN)

    def do_child(self, seconds, options):
        leaves = options.get("leaves", False)
        child = subprocess.Popen(["sleep", str(seconds)], start_new_session=leaves)
        self.do_stderr(f"child {child.pid}")


if __name__ == "__main__":
    Server(json.loads(sys.argv[1])).serve()
