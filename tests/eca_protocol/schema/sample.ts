// Uses of the types, for the compiler: what stands below `@ts-expect-error` must not compile.
import type { ChatContent, ChatContext, InitializationOptions, Methods } from "./eca";

type Params<Name extends keyof Methods> = Methods[Name] extends { params: infer P } ? P : never;

export const prompt: Params<"chat/prompt"> = {
  message: "hi",
  contexts: [{ type: "file", path: "/a", linesRange: { start: 1, end: 2 } }],
};
export const nobody: Params<"initialize"> = {
  processId: null,
  capabilities: {},
  workspaceFolders: [],
};
export const kind: Methods["chat/prompt"]["kind"] = "request";
export const nothing: Methods["shutdown"]["result"] = null;
export const options: InitializationOptions = { chatBehavior: "plan", ofTheUser: [1] };

export function shown(content: ChatContent): string {
  switch (content.type) {
    case "text":
      return content.text;
    case "toolCallRun":
      return JSON.stringify(content.arguments["path"]);
    case "usage":
      return content.limit === undefined ? "" : String(content.limit.context + content.limit.output);
    default:
      return content.type;
  }
}

// @ts-expect-error: `message` is needed
export const empty: Params<"chat/prompt"> = {};
// @ts-expect-error: an optional member is left out, not null
export const withNull: Params<"chat/prompt"> = { message: "hi", chatId: null };
// @ts-expect-error: a number
export const numbered: Params<"chat/prompt"> = { message: 1 };
// @ts-expect-error: no such type in this revision
export const picture: ChatContext = { type: "image", mediaType: "image/png", base64: "" };
// @ts-expect-error: no such method in this revision
export const fork: Params<"chat/fork"> = { chatId: "1", contentId: "2" };
// @ts-expect-error: no such value
export const state: ChatContent = { type: "progress", state: "paused", text: "" };
