/** Open WebUI's HTTP API, as its pages in the browser call it. */
import { z } from "zod";

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
}

const session = z.object({ token: z.string(), role: z.string() });
const modelList = z.object({ data: z.array(z.object({ id: z.string() })) });
const chunk = z.object({
  choices: z.array(z.object({ delta: z.object({ content: z.string().nullish() }).optional() })).default([]),
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
  return {
    role,
    models: async () => {
      const response = await accepted(await fetch(`${url}/api/models`, { headers: bearer(token) }));
      return modelList.parse(await response.json()).data.map(({ id }) => id);
    },
    add: async (account) => {
      const answer = await post(url, "/api/v1/auths/add", { ...account, role: "user" }, token);
      await answer.text();
    },
    chat: async (model, max_tokens) => {
      const messages = [{ role: "user", content: "Hi" }];
      const body = { model, messages, max_tokens, stream: true };
      return chunksWithText(await (await post(url, "/api/chat/completions", body, token)).text());
    },
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
