// vscode-jsonrpc at a server, driven over stdin and stdout by a line of JSON for each message.
//
// Arguments: the options as JSON, then the server's command. A request's line has `id`, and its
// answer comes back with that one, whatever the library calls it on the wire. What an editor
// on this library does is done here: handlers are there only once `initialize` was answered.
const { spawn } = require("child_process");
const readline = require("readline");
const rpc = require("vscode-jsonrpc/node");

const [options, command, ...args] = process.argv.slice(2);
const { cwd, answers } = JSON.parse(options);
const server = spawn(command, args, { cwd, stdio: ["pipe", "pipe", "inherit"] });
const say = (value) => process.stdout.write(JSON.stringify(value) + "\n");
say({ pid: server.pid });

const connection = rpc.createMessageConnection(
  new rpc.StreamMessageReader(server.stdout),
  new rpc.StreamMessageWriter(server.stdin),
);
// Who kills the server right behind `exit` may find that it can no longer be written.
let leaving = false;
const complain = (error) => leaving || say({ fault: String(error) });
connection.onError(([error]) => complain(error));
connection.trace(rpc.Trace.Messages, { log: (line) => say({ trace: line }) });
connection.listen();
server.on("exit", (code, signal) => {
  say({ exit: code === null ? signal : code });
  connection.dispose();
});

function listen() {
  connection.onNotification((method, params) => say({ method, params }));
  // The library has a use of its own for this one, unless it is taken by name, as Desktop does.
  connection.onNotification("$/progress", (params) => say({ method: "$/progress", params }));
  for (const [method, result] of Object.entries(answers)) {
    connection.onRequest(method, () => result);
  }
}

async function ask({ id, method, params }) {
  const given = params === undefined ? [] : [params];
  try {
    const result = await connection.sendRequest(method, ...given);
    if (method === "initialize") listen();
    say({ id, result });
  } catch (error) {
    say({ id, error: { code: error.code, message: error.message } });
  }
}

function tell({ method, params }) {
  const given = params === undefined ? [] : [params];
  leaving ||= method === "exit";
  connection.sendNotification(method, ...given).catch(complain);
}

readline
  .createInterface({ input: process.stdin })
  .on("line", (line) => {
    const message = JSON.parse(line);
    if (message.kill) server.kill(message.kill);
    else if (message.close) server.stdin.end();
    else if (message.id !== undefined) ask(message);
    else tell(message);
  })
  .on("close", () => server.kill("SIGKILL"));
