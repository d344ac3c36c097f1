/** Open WebUI's HTTP API, as its pages in the browser call it. */
import { randomUUID } from "node:crypto";
import { z } from "zod";
import { until } from "../../bed/until.ts";

export interface Account {
  readonly name: string;
  readonly email: string;
  readonly password: string;
}

export interface SignedIn {
  readonly role: string;
  readonly models: () => Promise<readonly string[]>;
  /** Adds an account. Only administrators may. */
  readonly add: (account: Account) => Promise<void>;
  /** Resolves at the end of the stream with its chunks that have text. */
  readonly chat: (model: string, maxTokens: number) => Promise<number>;
  /** A new chat that is stored, with a title from the model. Resolves with the text of the answer. */
  readonly startChat: (model: string, maxTokens: number) => Promise<string>;
}

const HI = { role: "user", content: "Hi" };
const session = z.object({ token: z.string(), role: z.string() });
const modelList = z.object({ data: z.array(z.object({ id: z.string() })) });
const chunk = z.object({
  choices: z.array(z.object({ delta: z.object({ content: z.string().nullish() }).optional() })).default([]),
});

const startedChat = z.object({ chat_id: z.string() });
const storedMessage = z.object({
  role: z.string(),
  content: z.string(),
  done: z.boolean().default(false),
  error: z.unknown().optional(),
});
const storedChat = z.object({
  chat: z.object({ history: z.object({ messages: z.record(z.string(), storedMessage) }) }),
});

/** The first account of all becomes the administrator. */
export async function signUp(url: string, account: Account): Promise<SignedIn> {
  return signedIn(url, await post(url, "/api/v1/auths/signup", account));
}

export async function signIn(url: string, { email, password }: Account): Promise<SignedIn> {
  return signedIn(url, await post(url, "/api/v1/auths/signin", { email, password }));
}

async function signedIn(url: string, answer: Response): Promise<SignedIn> {
  const { token, role } = session.parse(await answer.json());
  const read = async (path: string): Promise<unknown> =>
    (await accepted(await fetch(`${url}${path}`, { headers: bearer(token) }))).json();
  return {
    role,
    models: async () => modelList.parse(await read("/api/models")).data.map(({ id }) => id),
    add: async (account) => {
      await (await post(url, "/api/v1/auths/add", { ...account, role: "user" }, token)).text();
    },
    chat: async (model, max_tokens) => {
      const body = { model, messages: [HI], max_tokens, stream: true };
      return chunksWithText(await (await post(url, "/api/chat/completions", body, token)).text());
    },
    startChat: async (model, maxTokens) => {
      const body = newChat(model, maxTokens);
      const started = await post(url, "/api/chat/completions", body, token);
      const { chat_id } = startedChat.parse(await started.json());
      return until(async () => {
        const { chat } = storedChat.parse(await read(`/api/v1/chats/${chat_id}`));
        const message = Object.values(chat.history.messages).find(({ role }) => role === "assistant");
        if (message?.done !== true && !message?.error) throw new Error("there is no answer");
        return message.error ? `error: ${JSON.stringify(message.error)}` : message.content;
      });
    },
  };
}

function newChat(model: string, max_tokens: number) {
  const [user, assistant] = [randomUUID(), randomUUID()];
  return {
    model,
    messages: [HI],
    params: { max_tokens },
    stream: true,
    parent_id: null,
    session_id: randomUUID(),
    id: assistant,
    user_message: { id: user, ...HI, parentId: null, childrenIds: [assistant], models: [model] },
    background_tasks: { title_generation: true },
  };
}

function chunksWithText(stream: string): number {
  const events = stream.split("\n").flatMap((line) => /^data: (\{.*)$/.exec(line)?.[1] ?? []);
  return events.filter((event) =>
    chunk.parse(JSON.parse(event)).choices.some(({ delta }) => Boolean(delta?.content)),
  ).length;
}

async function post(url: string, path: string, body: object, token = ""): Promise<Response> {
  const headers = { "content-type": "application/json", ...bearer(token) };
  return accepted(await fetch(`${url}${path}`, { method: "POST", headers, body: JSON.stringify(body) }));
}

async function accepted(response: Response): Promise<Response> {
  if (response.ok) return response;
  throw new Error(`${response.status} ${await response.text()}`);
}

function bearer(token: string) {
  return { authorization: `Bearer ${token}` };
}
