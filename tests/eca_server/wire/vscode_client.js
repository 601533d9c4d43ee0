// An editor on vscode-jsonrpc: starts the server named by its arguments, chats, stops, leaves.
// Prints one JSON object that says what it saw.
const { spawn } = require("child_process");
const rpc = require("vscode-jsonrpc/node");

const [command, ...args] = process.argv.slice(2);
const server = spawn(command, args, { stdio: ["pipe", "pipe", "inherit"] });
const exit = new Promise((resolve) => server.on("exit", (code) => resolve(code)));
const connection = rpc.createMessageConnection(
  new rpc.StreamMessageReader(server.stdout),
  new rpc.StreamMessageWriter(server.stdin),
);

const seen = { notifications: [], wire: [], errors: [] };
connection.onError(([error]) => seen.errors.push(String(error)));
connection.trace(rpc.Trace.Verbose, {
  log: (message) => seen.wire.push(message),
});
connection.listen();

let waiting = [];
function contentOf(notification) {
  return (notification.params && notification.params.content) || {};
}
function until(wanted) {
  return new Promise((resolve) => waiting.push({ wanted, resolve }));
}
function onNotification(method, params) {
  const notification = { method, params };
  seen.notifications.push(notification);
  waiting = waiting.filter(({ wanted, resolve }) => !wanted(notification) || resolve());
}
const finished = (n) => contentOf(n).state === "finished";

(async () => {
  seen.initialize = await connection.sendRequest("initialize", {
    processId: process.pid,
    clientInfo: { name: "VsCode", version: "XXX" },
    capabilities: { codeAssistant: { chat: true } },
    initializationOptions: {},
    workspaceFolders: [],
  });
  connection.onNotification(onNotification);
  // The library has a use of its own for this one, unless it is taken by name, as Desktop does.
  connection.onNotification("$/progress", (params) => onNotification("$/progress", params));
  const introduced = until((n) => n.method === "$/progress" && n.params.type === "finish");
  await connection.sendNotification("initialized", {});
  await introduced;

  const model = "simulator/script";
  const said = until(finished);
  seen.prompt = await connection.sendRequest("chat/prompt", {
    message: "think hm\nrepeat 3000 wörd\\n\nsay \u{1F600} end",
    model,
    chatId: undefined,
  });
  await said;

  const begun = until((n) => contentOf(n).text === "here");
  const stopped = until(finished);
  seen.stop = await connection.sendRequest("chat/prompt", {
    chatId: seen.prompt.chatId,
    message: "say here\nwait forever",
    model,
  });
  await begun;
  await connection.sendNotification("chat/promptStop", { chatId: seen.stop.chatId });
  await stopped;

  const unknown = connection.sendRequest("chat/list", {});
  seen.unknown = await unknown.then(() => "answered", (error) => error.code);
  seen.deleted = await connection.sendRequest("chat/delete", { chatId: seen.stop.chatId });
  seen.shutdown = await connection.sendRequest("shutdown");
  await connection.sendNotification("exit");
  seen.exit = await exit;
  connection.dispose();
  console.log(JSON.stringify(seen));
})().catch((error) => {
  console.error(error);
  server.kill();
  process.exitCode = 1;
});
