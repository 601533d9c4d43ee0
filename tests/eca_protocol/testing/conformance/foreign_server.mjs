// A small ECA server with one tool; FAULTS names its deliberate errors, separated by commas.
import { spawn } from "node:child_process";
import { randomUUID } from "node:crypto";

const faults = new Set((process.env.FAULTS ?? "").split(","));
const [[provider, { url, key, models }]] = Object.entries(JSON.parse(process.env.ECA_CONFIG).providers);
const names = Object.keys(models).map((name) => `${provider}/${name}`);
const parameters = { type: "object", properties: { command: { type: "string" } }, required: ["command"] };
const shell = { name: "eca_shell_command", description: "Run a command.", parameters };
const [chats, common] = [new Map(), []];
let isShutDown = false;

const send = (message) => {
  const body = JSON.stringify({ jsonrpc: "2.0", ...message });
  const length = faults.has("characters") ? body.length : Buffer.byteLength(body) + (faults.has("long") && message.params?.role ? 99999 : 0);
  process.stdout.write(`Content-Length: ${length}\r\n\r\n${body}`);
};
const notify = (method, params) => send({ method, params });
const say = (chat, role, content) => chats.get(chat.id) === chat && notify("chat/contentReceived", { chatId: chat.id, role, content });
const sayCall = (chat, call, type, more) => say(chat, "assistant", { type, origin: "native", id: call.id, name: call.name, server: "eca", ...more });

const finish = (chat, turn) => {
  for (const call of turn.calls) call.end?.("user-choice");
  if (turn.dropped) say(chat, "system", { type: "text", text: `\n\nDropped: ${turn.dropped}\n\n` });
  if (!turn.isStopped) say(chat, "system", { type: "usage", sessionTokens: (chat.tokens += turn.tokens) });
  chat.turn = undefined;
  say(chat, "system", { type: "progress", state: "finished", text: "" });
  if (chat.queue.length) start(chat);
};
const stop = (chat) => {
  const turn = chat?.turn;
  if (!turn) return;
  Object.assign(turn, { isStopped: true, dropped: chat.queue.splice(0).map((each) => each.message).join("\n") });
  if (!faults.has("late")) turn.stopping.abort();
  finish(chat, turn);
};
const start = (chat) => {
  const { message, model } = chat.queue.shift();
  const turn = (chat.turn = { stopping: new AbortController(), calls: [], tokens: 0, model: model ?? names[0] });
  say(chat, "system", { type: "progress", state: "running", text: "Thinking" });
  say(chat, "user", { type: "text", text: message, contentId: randomUUID() });
  setImmediate(async () => {
    chat.history.push({ role: "user", content: message });
    try { while (await ask(chat, turn)); } catch (error) {
      if (!turn.isStopped) say(chat, "system", { type: "text", text: `\n\n${error.message}\n\n` });
    }
    if (!turn.isStopped) finish(chat, turn);
  });
};
const ask = async (chat, turn) => {
  const messages = [{ role: "system", content: "You help." }, ...chat.history];
  const body = { model: turn.model.split("/")[1], messages, tools: [{ type: "function", function: shell }], stream: true };
  const headers = { authorization: `Bearer ${key}`, "content-type": "application/json" };
  const response = await fetch(`${url}/chat/completions`, { method: "POST", headers, body: JSON.stringify(body), signal: turn.stopping.signal });
  if (!response.ok) throw new Error(await response.text());
  let [text, rest] = ["", ""];
  turn.calls = [];
  for await (const chunk of response.body.pipeThrough(new TextDecoderStream())) {
    const lines = (rest + chunk).split("\n");
    rest = lines.pop();
    for (const event of lines.filter((line) => line.startsWith("data: {")).map((line) => JSON.parse(line.slice(6)))) {
      turn.tokens += event.usage?.total_tokens ?? 0;
      const { content, tool_calls } = event.choices?.[0]?.delta ?? {};
      if (content) { text += content; say(chat, "assistant", { type: "text", text: content }); }
      for (const { index, id, function: { name, arguments: piece } } of tool_calls ?? []) {
        const call = (turn.calls[index] ??= { id, name, text: "" });
        call.text += piece;
        sayCall(chat, call, "toolCallPrepare", { argumentsText: piece });
      }
    }
  }
  const tool_calls = turn.calls.map(({ id, name, text }) => ({ id, type: "function", function: { name, arguments: text } }));
  chat.history.push({ role: "assistant", content: text, ...(tool_calls.length && { tool_calls }) });
  for (const call of turn.calls) chat.history.push({ role: "tool", tool_call_id: call.id, content: await run(chat, call) });
  return turn.calls.length > 0 && !turn.isStopped;
};
const run = (chat, call) => new Promise((resolve) => {
  const args = JSON.parse(call.text);
  const close = (type, more, result) => {
    call.decide = call.end = undefined;
    sayCall(chat, call, type, { arguments: args, ...more });
    resolve(result);
  };
  call.end = (reason) => close("toolCallRejected", { reason }, "The user rejected it.");
  call.decide = (isApproved) => {
    if (!isApproved) return call.end(faults.has("reason") ? "user" : "user-choice");
    const child = spawn("/bin/sh", ["-c", args.command], { stdio: ["ignore", "pipe", "ignore"], detached: true });
    const done = (text, error) => close("toolCalled", { error, outputs: [{ type: "text", text }], totalTimeMs: 1 }, text);
    let output = "";
    child.stdout.on("data", (data) => (output += data)).on("end", () => call.end && done(output, false));
    call.decide = undefined;
    call.end = () => (process.kill(-child.pid, "SIGKILL"), done("It was stopped.", true));
    sayCall(chat, call, "toolCallRunning", { arguments: args });
  };
  sayCall(chat, call, "toolCallRun", { arguments: args, manualApproval: true });
});

const decide = (isApproved) => ({ chatId, toolCallId }) => chats.get(chatId)?.turn?.calls.find(({ id }) => id === toolCallId)?.decide?.(isApproved);
const methods = {
  initialize: () => ({ chatWelcomeMessage: "Hello." }),
  initialized: () => {
    const selected = { selectModel: names[0], selectBehavior: "agent", selectAgent: "agent", welcomeMessage: "Hello." };
    notify("config/updated", { chat: { models: names, behaviors: ["agent"], agents: ["agent"], ...selected } });
    const tools = [{ ...shell, disabled: false }];
    if (!faults.has("unannounced")) notify("tool/serverUpdated", { type: "native", name: "ECA", status: "running", tools });
  },
  "chat/prompt": ({ chatId: id = randomUUID(), message, model }) => {
    if (!chats.has(id)) chats.set(id, { id, tokens: 0, queue: [], history: faults.has("shared") ? common : [] });
    const chat = chats.get(id);
    chat.queue.push({ message, model });
    if (!chat.turn) start(chat);
    return { chatId: id, model: model ?? names[0], status: "prompting" };
  },
  "chat/promptStop": ({ chatId }) => void stop(chats.get(chatId)),
  "chat/toolCallApprove": decide(true),
  "chat/toolCallReject": decide(false),
  "chat/delete": ({ chatId }) => (stop(chats.get(chatId)), chats.delete(chatId), {}),
  "chat/queryContext": () => ({ contexts: [] }),
  "chat/queryCommands": () => ({ commands: [] }),
  shutdown: () => (isShutDown = true, [...chats.values()].forEach(stop), null),
  exit: () => process.exit(isShutDown || faults.has("exit") ? 0 : 1),
};

let input = Buffer.alloc(0);
process.stdin.on("data", (data) => {
  input = Buffer.concat([input, data]);
  for (let header; (header = /^Content-Length: (\d+)\r\n\r\n/.exec(input.subarray(0, 99).toString("latin1"))); ) {
    const end = header[0].length + Number(header[1]);
    if (input.length < end) return;
    const { id, method, params } = JSON.parse(input.subarray(header[0].length, end));
    input = input.subarray(end);
    const result = methods[method]?.(params ?? {});
    if (id !== undefined) send(method in methods ? { id, result } : { id, error: { code: -32601, message: `no method ${method}` } });
  }
}).on("end", () => process.exit(0));
