/** The MCP server over streamable HTTP, asked by the SDK's own client. */
import { once } from "node:events";
import { writeFile } from "node:fs/promises";
import { type IncomingMessage, request } from "node:http";
import path from "node:path";
import { text } from "node:stream/consumers";
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import type { Transport } from "@modelcontextprotocol/sdk/shared/transport.js";
import { ElicitRequestSchema, type ElicitResult } from "@modelcontextprotocol/sdk/types.js";
import { afterEach, expect, test } from "vitest";
import { MetalbridgeError } from "../../src/api/errors.ts";
import { systemClock } from "../../src/kube/system-clock.ts";
import { quietLog } from "../../test/cluster/quiet-log.ts";
import { temporaryFolder } from "../../test/fixtures/temporary-folder.ts";
import { createDensity, type Density } from "../density/density.ts";
import { createFits } from "../density/fits.ts";
import { aHost, catalogRecords } from "../density/fixtures/fleet.ts";
import { placeOfHost } from "../density/place.ts";
import type { DeployWish, McpContext } from "./context.ts";
import { listenMcp } from "./listen.ts";

const records = catalogRecords();
let stack = new AsyncDisposableStack();
afterEach(async () => {
  await stack.disposeAsync();
  stack = new AsyncDisposableStack();
});

function fleet(...names: readonly string[]): Density {
  const density = createDensity(createFits(records));
  for (const name of names) density.setPlace("Host", name, placeOfHost(aHost(name)));
  return density;
}

const context: McpContext = {
  now: () => ({ wallMs: Date.now(), monotonicMs: performance.now() }),
  density: async () => fleet("mac-1", "mac-2"),
  here: async () => fleet("this-one"),
  cluster: () => Promise.reject(new MetalbridgeError("ApiUnreachable", "no API server answers")),
};

async function listen(more: Partial<Parameters<typeof listenMcp>[0]> = {}): Promise<string> {
  const stop = new AbortController();
  stack.defer(() => stop.abort());
  const options = { context, version: "0.0.0", log: quietLog, address: "127.0.0.1", port: 0 };
  const port = await listenMcp({ ...options, clock: systemClock, signal: stop.signal, ...more });
  return `http://127.0.0.1:${port}/mcp`;
}

interface ClientWish {
  readonly token?: string;
  /** What the user says; absent: the client cannot ask. */
  readonly user?: (question: string) => ElicitResult;
}

async function connectTo(url: string, { token, user }: ClientWish = {}): Promise<Client> {
  const capabilities = user === undefined ? {} : { elicitation: {} };
  const client = new Client({ name: "test", version: "1" }, { capabilities });
  if (user !== undefined)
    client.setRequestHandler(ElicitRequestSchema, async ({ params }) => user(params.message));
  const headers = token === undefined ? {} : { authorization: `Bearer ${token}` };
  const transport = new StreamableHTTPClientTransport(new URL(url), { requestInit: { headers } });
  await client.connect(transport as Transport);
  stack.defer(() => client.close());
  return client;
}

async function call(client: Client, name: string, args: Record<string, unknown> = {}) {
  const result = await client.callTool({ name, arguments: args });
  const [{ text: body = "" } = {}] = result.content as readonly { readonly text?: string }[];
  return { isError: result.isError === true, body, json: () => JSON.parse(body) };
}

test("tools are listed with their arguments, deploy only where it is allowed", async () => {
  const client = await connectTo(await listen());
  const { tools } = await client.listTools();
  expect(tools.map(({ name }) => name)).toEqual(["fit", "explain_placement", "list_services"]);
  expect(tools.every(({ annotations }) => annotations?.readOnlyHint === true)).toBe(true);
  expect(tools[0]?.inputSchema.properties).toHaveProperty("model");
  const refused = await call(client, "deploy", { model: "hf://org/repo" });
  expect([refused.isError, refused.body]).toEqual([true, expect.stringContaining("deploy not found")]);
  const allowed = await connectTo(await listen({ context: { ...context, deploy: async () => undefined } }));
  expect((await allowed.listTools()).tools.map(({ name }) => name)).toContain("deploy");
});

test("fit ranks machines for a model, models for a machine, and places beside what is placed", async () => {
  const client = await connectTo(await listen());
  const machines = (await call(client, "fit", { model: "Qwen2.5-7B", min_fit: "good" })).json();
  expect(machines.rankedNodes.map(({ nodeName }: { nodeName: string }) => nodeName)).toEqual([
    "mac-1",
    "mac-2",
  ]);
  const models = (await call(client, "fit", { node: "mac-2", limit: 3 })).json();
  expect(models).toMatchObject({ NodeName: "mac-2", Kind: "Host" });
  expect(models.ModelFits).toHaveLength(3);
  expect(models.total).toBeGreaterThan(3);
  expect((await call(client, "fit")).json()).toMatchObject({ NodeName: "this-one" });
  const placed = (
    await call(client, "fit", { model: "Qwen2.5-7B", quantization: "Q8_0", context: 4096, limit: 1 })
  ).json();
  expect(placed).toMatchObject({ canFitAnywhere: true, total: 2 });
  expect(placed.rankedNodes).toMatchObject([{ nodeName: "mac-1", quantization: "Q8_0" }]);
});

test.each([
  [{ model: 7 }, /expected string/],
  [{ model: "" }, /model/],
  [{ model: "x".repeat(513) }, /<=512/],
  [{ model: "a", colour: "blue" }, /colour/],
  [{ model: "a", node: "b" }, /not both/],
  [{ node: "../../etc" }, /small letters/],
  [{ node: "mac-9" }, /node not found/],
  [{ limit: 0 }, /limit/],
  [{ min_fit: "best" }, /perfect/],
  [{ model: "Qwen2.5-7B", quantization: "Q9_Z" }, /invalid quantization value: use one of/],
  [{ model: "Qwen2.5", context: 100 }, /several models/],
  [{ quantization: "Q8_0" }, /go with model/],
])("fit with %j is refused in words", async (args, why) => {
  const client = await connectTo(await listen());
  const { isError, body } = await call(client, "fit", args);
  expect([isError, body]).toEqual([true, expect.stringMatching(why)]);
  expect(body.length).toBeLessThan(2_000);
});

test("a name that reads as a regular expression is a name, and a cluster that does not answer is an error in words", async () => {
  const client = await connectTo(await listen());
  const none = (await call(client, "fit", { model: "(Qwen|.*)+$" })).json();
  expect(none).toMatchObject({ rankedNodes: [], total: 0 });
  const failed = await call(client, "list_services");
  expect([failed.isError, failed.json()]).toMatchObject([true, { code: "ApiUnreachable" }]);
  const malformed = await call(client, "explain_placement", { service: "A/B" });
  expect([malformed.isError, malformed.body]).toEqual([true, expect.stringContaining("small letters")]);
});

/** Whatever is sent, byte for byte. */
async function send(url: string, headers: Record<string, string>, body: string): Promise<[number, string]> {
  const sent = request(url, { method: "POST", headers: { "content-type": "application/json", ...headers } });
  const answered = once(sent, "response");
  sent.end(body);
  const [response] = (await answered) as [IncomingMessage];
  return [response.statusCode ?? 0, await text(response)];
}

test("without a token only programs of this machine may ask, and no web page", async () => {
  const url = await listen();
  expect(await send(url, { host: "evil.example:80" }, "{}")).toEqual([
    403,
    expect.stringMatching(/this machine/),
  ]);
  expect(await send(url, { origin: "https://evil.example" }, "{}")).toEqual([
    403,
    expect.stringMatching(/this machine/),
  ]);
  expect((await send(url, { origin: "null" }, "{}"))[0]).toBe(403);
  expect((await send(url.replace("/mcp", "/other"), {}, "{}"))[0]).toBe(404);
  expect(await send(url, {}, "{")).toEqual([400, expect.stringMatching(/not JSON/)]);
  expect(await send(url, {}, JSON.stringify({ model: "x".repeat(1_000_000) }))).toEqual([
    413,
    expect.stringMatching(/65536/),
  ]);
  expect((await send(url, { "mcp-session-id": "made-up" }, "{}"))[0]).toBe(404);
  await expect(listen({ address: "0.0.0.0" })).rejects.toMatchObject({ code: "ServerConfigInvalid" });
});

test("with a token file every request needs the token in it", async () => {
  const folder = stack.use(await temporaryFolder());
  const tokenFile = path.join(folder.path, "token");
  await writeFile(tokenFile, "open-sesame\n");
  const url = await listen({ tokenFile, address: "0.0.0.0" });
  await expect(connectTo(url)).rejects.toThrow(/send the token/);
  await expect(connectTo(url, { token: "wrong" })).rejects.toThrow(/send the token/);
  const client = await connectTo(url, { token: "open-sesame" });
  expect((await call(client, "fit")).json()).toMatchObject({ NodeName: "this-one" });
  await writeFile(tokenFile, "changed\n");
  await expect(call(client, "fit")).rejects.toThrow(/send the token/);
});

test("deploy asks first: only an accepted question creates anything", async () => {
  const created: DeployWish[] = [];
  const questions: string[] = [];
  const url = await listen({
    context: {
      ...context,
      deploy: async (wish, isAllowed) => {
        if (!(await isAllowed(`Create ${wish.model}?`))) return undefined;
        created.push(wish);
        return { service: "default/tiny", model: "tiny" };
      },
    },
  });
  const answerWith = (result: ElicitResult) =>
    connectTo(url, {
      user: (question) => {
        questions.push(question);
        return result;
      },
    });
  const wish = { model: "hf://org/tiny", replicas: 2 };
  for (const no of [
    { action: "decline" },
    { action: "cancel" },
    { action: "accept", content: { confirm: false } },
  ] as const) {
    const { isError, body } = await call(await answerWith(no), "deploy", wish);
    expect([isError, body]).toEqual([true, expect.stringContaining("nothing was changed")]);
  }
  const dumb = await call(await connectTo(url), "deploy", wish);
  expect([dumb.isError, dumb.body]).toEqual([true, expect.stringContaining("cannot ask its user")]);
  expect(created).toEqual([]);
  const yes = await answerWith({ action: "accept", content: { confirm: true } });
  expect((await call(yes, "deploy", { model: wish.model, replicas: "two" })).isError).toBe(true);
  expect(created).toEqual([]);
  expect((await call(yes, "deploy", wish)).json()).toEqual({
    ...{ created: true, service: "default/tiny", model: "tiny" },
  });
  expect(created).toEqual([wish]);
  expect(questions).toEqual(Array(4).fill("Create hf://org/tiny?"));
});
