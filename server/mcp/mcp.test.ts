/** The MCP server over streamable HTTP, called with the SDK's client. */
import { once } from "node:events";
import { writeFile } from "node:fs/promises";
import { type IncomingMessage, request } from "node:http";
import path from "node:path";
import { text } from "node:stream/consumers";
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import type { Transport } from "@modelcontextprotocol/sdk/shared/transport.js";
import { ElicitRequestSchema, type ElicitResult } from "@modelcontextprotocol/sdk/types.js";
import fc from "fast-check";
import { afterEach, expect, test } from "vitest";
import { createDensity, type Density } from "../../fitness/density/density.ts";
import { createFitIndex } from "../../fitness/density/fits.ts";
import { aHost, catalogRecords } from "../../fitness/density/fixtures/fleet.ts";
import { machineFromHost } from "../../fitness/density/place.ts";
import { createLlmfitRest } from "../../fitness/llmfit/rest/rest.ts";
import { MetalbridgeError } from "../../src/api/errors.ts";
import { systemClock } from "../../src/kube/system-clock.ts";
import { quietLog } from "../../test/cluster/quiet-log.ts";
import { temporaryFolder } from "../../test/fixtures/temporary-folder.ts";
import type { DeployRequest, McpContext } from "./context.ts";
import { listenMcp, MAX_SESSIONS } from "./http.ts";

const records = catalogRecords();
let stack = new AsyncDisposableStack();
afterEach(async () => {
  await stack.disposeAsync();
  stack = new AsyncDisposableStack();
});

function fleet(...names: readonly string[]): Density {
  const density = createDensity(createFitIndex(records));
  for (const name of names) density.setPlace("Host", name, machineFromHost(aHost(name)));
  return density;
}

const context: McpContext = {
  now: () => ({ wallMs: Date.now(), monotonicMs: performance.now() }),
  density: async () => ({ density: fleet("mac-1", "mac-2") }),
  localDensity: async () => fleet("this-one"),
  llmfit: createLlmfitRest(records),
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
  /** Answer of the user. Undefined: the client does not support confirmation. */
  readonly user?: (question: string) => ElicitResult | Promise<ElicitResult>;
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

const TOKEN = "open-sesame";

async function writeToken(): Promise<string> {
  const folder = stack.use(await temporaryFolder());
  const tokenFile = path.join(folder.path, "token");
  await writeFile(tokenFile, `${TOKEN}\n`);
  return tokenFile;
}

async function call(client: Client, name: string, args: Record<string, unknown> = {}) {
  const result = await client.callTool({ name, arguments: args });
  const [{ text: body = "" } = {}] = result.content as readonly { readonly text?: string }[];
  return { isError: result.isError === true, body, json: () => JSON.parse(body) };
}

test("tools are listed with their arguments, and deploy only if it is allowed", async () => {
  const client = await connectTo(await listen());
  const { tools } = await client.listTools();
  expect(tools.map(({ name }) => name)).toEqual([
    ...["fit", "explain_placement", "list_services", "get_system_specs", "recommend_models"],
    ...["search_models", "plan_hardware", "get_runtimes", "get_installed_models"],
  ]);
  expect(tools.every(({ annotations }) => annotations?.readOnlyHint === true)).toBe(true);
  expect(tools[0]?.inputSchema.properties).toHaveProperty("model");
  const refused = await call(client, "deploy", { model: "hf://org/repo" });
  expect([refused.isError, refused.body]).toEqual([true, expect.stringContaining("deploy not found")]);
  const tokenFile = await writeToken();
  const allowed = await connectTo(
    await listen({ tokenFile, context: { ...context, deploy: async () => undefined } }),
    { token: TOKEN },
  );
  expect((await allowed.listTools()).tools.map(({ name }) => name)).toContain("deploy");
});

test("fit ranks machines for a model and models for a machine, and simulates placements next to placed models", async () => {
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
  [{ model: "a", color: "blue" }, /color/],
  [{ model: "a", node: "b" }, /not both/],
  [{ node: "../../etc" }, /small letters/],
  [{ node: "mac-9" }, /node not found/],
  [{ limit: 0 }, /limit/],
  [{ min_fit: "best" }, /perfect/],
  [{ model: "Qwen2.5-7B", quantization: "Q9_Z" }, /invalid quantization value: use one of/],
  [{ model: "Qwen2.5", context: 100 }, /several models/],
  [{ quantization: "Q8_0" }, /require model/],
])("fit with %j is refused with an error message", async (args, why) => {
  const client = await connectTo(await listen());
  const { isError, body } = await call(client, "fit", args);
  expect([isError, body]).toEqual([true, expect.stringMatching(why)]);
  expect(body.length).toBeLessThan(2_000);
});

test("a name with regular expression syntax is used literally, and a cluster that does not respond is an error message", async () => {
  const client = await connectTo(await listen());
  const none = (await call(client, "fit", { model: "(Qwen|.*)+$" })).json();
  expect(none).toMatchObject({ rankedNodes: [], total: 0 });
  const failed = await call(client, "list_services");
  expect([failed.isError, failed.json()]).toMatchObject([true, { code: "ApiUnreachable" }]);
  const malformed = await call(client, "explain_placement", { service: "A/B" });
  expect([malformed.isError, malformed.body]).toEqual([true, expect.stringContaining("small letters")]);
});

const MODEL = "Qwen/Qwen2.5-7B-Instruct";

test("llmfit's six tools return llmfit's shapes for this machine, and for a cluster machine by name", async () => {
  const client = await connectTo(await listen());
  const ask = async (tool: string, args: Record<string, unknown> = {}) => {
    const { isError, json } = await call(client, tool, args);
    expect(isError).toBe(false);
    return json();
  };
  const specs = await ask("get_system_specs");
  expect(specs).toEqual({
    node: "this-one",
    system: expect.objectContaining({ total_ram_gb: 64, gpu_count: 1 }),
  });
  expect((await ask("get_system_specs", { node: "mac-2" })).node).toBe("mac-2");
  const recommended = await ask("recommend_models", { use_case: "code", sort: "tps" });
  expect(Object.keys(recommended)).toEqual(["total_models", "returned_models", "models"]);
  const { models, returned_models, total_models } = recommended;
  expect([models.length, returned_models]).toEqual([10, 10]);
  expect(total_models).toBeGreaterThan(10);
  for (const { category, fit_level } of models) {
    expect([category, fit_level]).toEqual(["Coding", expect.not.stringMatching("too_tight")]);
  }
  const speeds = models.map(({ estimated_tps }: { estimated_tps: number }) => estimated_tps);
  expect(speeds).toEqual(speeds.toSorted((a: number, b: number) => b - a));
  const found = await ask("search_models", { query: "Qwen2.5-7B", limit: 1, node: "mac-1" });
  expect(found).toMatchObject({ query: "Qwen2.5-7B", returned_models: 1, models: [{ name: MODEL }] });
  expect(found.total_matches).toBeGreaterThanOrEqual(1);
  const plan = await ask("plan_hardware", { model: MODEL.toLowerCase(), quant: "Q4_K_M" });
  expect(plan).toMatchObject({ model_name: MODEL, context: 8192, quantization: "Q4_K_M", target_tps: null });
  expect(plan.minimum.vram_gb.toFixed(4)).toBe("5.3546");
  const { runtimes } = await ask("get_runtimes");
  expect(runtimes).toHaveLength(7);
  expect(runtimes).toContainEqual({ name: "llamacpp", installed: true });
  expect(runtimes).toContainEqual({ name: "ramalama", installed: false });
  expect(await ask("get_installed_models")).toEqual({ models: [] });
});

test.each([
  ["recommend_models", { runtime: "tgi" }, /^invalid runtime value: use any\|mlx\|llamacpp\|vllm/],
  ["recommend_models", { use_case: "art" }, /^invalid use_case value: use general\|/],
  ["recommend_models", { sort: "__proto__" }, /^invalid sort value: use score\|/],
  ["recommend_models", { min_fit: "best" }, /^invalid min_fit value: use perfect\|/],
  ["plan_hardware", { model: "x" }, /^model 'x' not found/],
  ["plan_hardware", { model: MODEL, quant: "Q9_Z" }, /^invalid quant value: use F32\|/],
  ["plan_hardware", { model: MODEL, target_tps: -1 }, /^invalid target_tps value/],
  ["get_runtimes", { node: "mac-9" }, /no Host or Node is named mac-9/],
  ["recommend_models", { node: "silent" }, /^silent: ./],
])("%s with %j returns its error in the result, as in llmfit", async (tool, args, why) => {
  const density = fleet("mac-1");
  density.setPlace("Host", "silent", machineFromHost(aHost("silent", { status: { info: {}, memory: {} } })));
  const client = await connectTo(
    await listen({ context: { ...context, density: async () => ({ density }) } }),
  );
  const { isError, json } = await call(client, tool, args);
  expect([isError, json()]).toEqual([false, { error: expect.stringMatching(why) }]);
});

test("results of llmfit's tools for a silent machine are marked as stale", async () => {
  const density = fleet("mac-1");
  density.setPlace("Host", "mac-2", {
    ...machineFromHost(aHost("mac-2")),
    staleReason: "silent for 5 minutes",
  });
  const client = await connectTo(
    await listen({ context: { ...context, density: async () => ({ density }) } }),
  );
  const stale = async (node: string) => (await call(client, "get_system_specs", { node })).json().stale;
  expect([await stale("mac-1"), await stale("mac-2")]).toEqual([undefined, true]);
});

test("llmfit's tools require a machine name if the server does not run on a machine of the cluster", async () => {
  const { localDensity: _, ...inCluster } = context;
  const client = await connectTo(await listen({ context: inCluster }));
  const { tools } = await client.listTools();
  const required = tools.filter(({ inputSchema }) => inputSchema.required?.includes("node"));
  expect(required).toHaveLength(6);
  expect((await call(client, "get_system_specs")).isError).toBe(true);
  expect((await call(client, "get_system_specs", { node: "mac-1" })).json()).toMatchObject({ node: "mac-1" });
  expect((await call(client, "fit")).body).toMatch(/set model or node/);
});

/** Sends the given bytes unchanged. */
async function send(url: string, headers: Record<string, string>, body: string): Promise<[number, string]> {
  const sent = request(url, { method: "POST", headers: { "content-type": "application/json", ...headers } });
  const answered = once(sent, "response");
  sent.end(body);
  const [response] = (await answered) as [IncomingMessage];
  return [response.statusCode ?? 0, await text(response)];
}

test("without a token only programs on this machine have access, and no web page", async () => {
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
  const lengths = fc.integer({ min: 65_533, max: 65_539 });
  await fc.assert(
    fc.asyncProperty(lengths, async (length) => {
      const [status] = await send(url, {}, "x".repeat(length));
      expect(status).toBe(length > 65_536 ? 413 : 400);
    }),
    { numRuns: 20 },
  );
  expect((await send(url, { "mcp-session-id": "made-up" }, "{}"))[0]).toBe(404);
  const deploy = { ...context, deploy: async () => undefined };
  for (const open of [{ address: "0.0.0.0" }, { context: deploy }])
    await expect(listen(open)).rejects.toMatchObject({ code: "ServerConfigInvalid" });
});

test("a session is ended by a DELETE that has a content type and no body", async () => {
  const url = await listen();
  const params = { protocolVersion: "2025-03-26", capabilities: {}, clientInfo: { name: "c", version: "1" } };
  const headers = { "content-type": "application/json", accept: "application/json, text/event-stream" };
  const body = JSON.stringify({ jsonrpc: "2.0", id: 1, method: "initialize", params });
  const begun = await fetch(url, { method: "POST", headers, body });
  await begun.text();
  const session = { ...headers, "mcp-session-id": begun.headers.get("mcp-session-id") ?? "" };
  expect((await fetch(url, { method: "DELETE", headers: session })).status).toBe(200);
  expect((await fetch(url, { method: "DELETE", headers: session })).status).toBe(404);
});

test("with a token file every request requires the token in that file", async () => {
  const tokenFile = await writeToken();
  const url = await listen({ tokenFile, address: "0.0.0.0" });
  await expect(connectTo(url)).rejects.toThrow(/send the token/);
  await expect(connectTo(url, { token: "wrong" })).rejects.toThrow(/send the token/);
  const client = await connectTo(url, { token: TOKEN });
  expect((await call(client, "fit")).json()).toMatchObject({ NodeName: "this-one" });
  await writeFile(tokenFile, "changed\n");
  await expect(call(client, "fit")).rejects.toThrow(/send the token/);
});

test("deploy asks for confirmation, and creates objects only if the user accepts", async () => {
  const created: DeployRequest[] = [];
  const questions: string[] = [];
  const url = await listen({
    tokenFile: await writeToken(),
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
      token: TOKEN,
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
  const dumb = await call(await connectTo(url, { token: TOKEN }), "deploy", wish);
  expect([dumb.isError, dumb.body]).toEqual([true, expect.stringContaining("cannot ask its user")]);
  expect(created).toEqual([]);
  const yes = await answerWith({ action: "accept", content: { confirm: true } });
  expect((await call(yes, "deploy", { model: wish.model, replicas: "two" })).isError).toBe(true);
  expect(created).toEqual([]);
  expect((await call(yes, "deploy", wish)).json()).toEqual({
    created: true,
    service: "default/tiny",
    model: "tiny",
  });
  expect(created).toEqual([wish]);
  expect(questions).toEqual(Array(4).fill("Create hf://org/tiny?"));
});

test("clients that disconnect silently do not block other clients, and a session that waits for its user is not closed", async () => {
  const asked = Promise.withResolvers<void>();
  const answer = Promise.withResolvers<ElicitResult>();
  const deploy: McpContext["deploy"] = async ({ model }, isAllowed) =>
    (await isAllowed("Create it?")) ? { service: "default/tiny", model } : undefined;
  const url = await listen({ tokenFile: await writeToken(), context: { ...context, deploy } });
  const first = await connectTo(url, {
    token: TOKEN,
    user: () => {
      asked.resolve();
      return answer.promise;
    },
  });
  const created = call(first, "deploy", { model: "tiny" });
  await asked.promise;
  for (let count = 0; count <= MAX_SESSIONS; count += 1)
    await (await connectTo(url, { token: TOKEN })).close();
  answer.resolve({ action: "accept", content: { confirm: true } });
  expect((await created).json()).toMatchObject({ created: true });
});
