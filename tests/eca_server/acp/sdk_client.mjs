// A client on the official TypeScript SDK: `node sdk_client.mjs DIRECTORY COMMAND [ARGUMENT ...]`.
// It prints what it sees as a JSON object.
import { spawn } from "node:child_process";
import { Readable, Writable } from "node:stream";
import * as acp from "@agentclientprotocol/sdk";

const [cwd, command, ...args] = process.argv.slice(2);
const { agent: agentMethods, client: clientMethods } = acp.methods;
const child = spawn(command, args, { cwd, stdio: ["pipe", "pipe", "inherit"] });
const stream = acp.ndJsonStream(Writable.toWeb(child.stdin), Readable.toWeb(child.stdout));
const seen = { updates: [], permissions: [], stops: [] };
let decision = "allow_once";
let onUpdate = () => {};

const client = acp
  .client({ name: "test" })
  .onRequest(clientMethods.session.requestPermission, ({ params }) => {
    seen.permissions.push(params.toolCall.title);
    const option = params.options.find((each) => each.kind === decision);
    return { outcome: { outcome: "selected", optionId: option.optionId } };
  })
  .onNotification(clientMethods.session.update, ({ params }) => {
    seen.updates.push(params.update);
    onUpdate(params.update);
  });

await client.connectWith(stream, async (ctx) => {
  seen.initialized = await ctx.request(agentMethods.initialize, {
    protocolVersion: acp.PROTOCOL_VERSION,
    clientCapabilities: {},
  });
  const { sessionId } = await ctx.request(agentMethods.session.new, { cwd, mcpServers: [] });
  const prompt = async (text) => {
    const blocks = [{ type: "text", text }];
    const response = await ctx.request(agentMethods.session.prompt, { sessionId, prompt: blocks });
    seen.stops.push(response.stopReason);
  };
  await prompt("say one two");
  const call = { path: `${cwd}/new.txt`, content: "first\n" };
  await prompt(`call eca_write_file ${JSON.stringify(call)}`);
  decision = "reject_once";
  await prompt(`call eca_write_file ${JSON.stringify({ ...call, path: `${cwd}/never.txt` })}`);
  onUpdate = (update) => {
    if (update.content?.text?.includes("slow")) {
      ctx.notify(agentMethods.session.cancel, { sessionId });
    }
  };
  await prompt("say slow\nwait forever");
  onUpdate = () => {};
  await ctx.request(agentMethods.session.close, { sessionId });
  seen.replayed = seen.updates.length;
  await ctx.request(agentMethods.session.load, { sessionId, cwd, mcpServers: [] });
  const listed = await ctx.request(agentMethods.session.list, { cwd });
  seen.isListed = listed.sessions.some((each) => each.sessionId === sessionId);
});
child.stdin.end();
console.log(JSON.stringify(seen));
child.on("exit", () => process.exit(0));
