import { once } from "node:events";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { get, type IncomingMessage } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import fc from "fast-check";
import { afterAll, beforeAll, expect, test } from "vitest";
import { readCatalog } from "../../fitness/catalog/record.ts";
import { factsOfHost } from "../../fitness/llmfit/rest/host-facts.ts";
import { createLlmfitRest } from "../../fitness/llmfit/rest/rest.ts";
import { until } from "../../test/bed/until.ts";
import { createSteppedClock } from "../../test/controller/stepped-clock.ts";
import { keepLines, type LogLine } from "../../test/fixtures/log-lines.ts";
import { agentConfigSchema } from "../config/schema.ts";
import { testAddress } from "../fixtures/agent.ts";
import { parseNodeConfig } from "../node/config.ts";
import { runNode } from "../node/main.ts";
import { serveLlmfit } from "./llmfit.ts";

const TOKEN = "sesame-0123456789";
const GIB = 1024 ** 3;
let folder = "";
let tokenFile = "";

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "mb-llmfit-"));
  tokenFile = join(folder, "token");
  await writeFile(tokenFile, `${TOKEN}\n`);
});
afterAll(() => rm(folder, { recursive: true }));

const facts = async () =>
  factsOfHost({
    metadata: { name: "mini-1" },
    spec: { addresses: [], unschedulable: false, drain: false, memory: { evictionEnabled: true } },
    status: {
      info: { os: "darwin", chip: "Apple M4 Pro", performanceCores: 8, efficiencyCores: 4 },
      memory: { totalBytes: 24 * GIB, availableBytes: 15 * GIB, gpuBudgetBytes: 18 * GIB },
    },
  });
const records = async () => readCatalog(await readFile("catalog/models.jsonl", "utf8")).records;
const load = async () => createLlmfitRest(await records());

interface Place {
  readonly address: string;
  readonly tokenFile?: string;
  readonly read?: typeof facts;
}

async function serve({ read = facts, ...place }: Place) {
  const end = new AbortController();
  const lines: LogLine[] = [];
  const log = keepLines(lines);
  const parts = { clock: createSteppedClock(), log, signal: end.signal, port: 0, load };
  serveLlmfit({ ...place, ...parts, facts: read });
  await until(() => expect(lines.map(({ message }) => message)).toContain("listening for llmfit's REST API"));
  const port = lines.find(({ message }) => message.startsWith("listening"))?.data.port;
  const ask = (path: string, init?: RequestInit) => fetch(`http://${place.address}:${port}${path}`, init);
  return { ask, port: Number(port), [Symbol.asyncDispose]: async () => end.abort() };
}

test("loopback answers without a token: rows, plans, and refusals of what is no request", async () => {
  await using server = await serve({ address: "127.0.0.1" });
  const top = await server.ask("/api/v1/models/top?limit=2&use_case=coding");
  expect(top.headers.get("content-type")).toBe("application/json");
  expect(await top.json()).toMatchObject({ node: { name: "mini-1", os: "macos" }, returned_models: 2 });
  const post = (body: string, type = "application/json") =>
    server.ask("/api/v1/plan", { method: "POST", body, headers: { "content-type": type } });
  const planned = await post(JSON.stringify({ model: "Qwen/Qwen3-8B", context: 4096 }));
  expect(await planned.json()).toMatchObject({ model_name: "Qwen/Qwen3-8B", context: 4096 });
  expect((await post("{")).status).toBe(400);
  expect((await post("model=x", "application/x-www-form-urlencoded")).status).toBe(415);
  await fc.assert(
    fc.asyncProperty(fc.integer({ min: 65_533, max: 65_539 }), async (length) => {
      expect((await post("x".repeat(length))).status).toBe(length > 65_536 ? 413 : 400);
    }),
    { numRuns: 20 },
  );
  expect((await server.ask("/api/v1/models?min_fit=none")).status).toBe(400);
  expect((await server.ask(`/api/v1/models?search=${"x".repeat(1 << 20)}`)).status).toBe(431);
  expect((await server.ask("/", { method: "DELETE" })).status).toBe(404);
  expect((await server.ask("/health")).status).toBe(200);
});

test("health does not wait for a slow machine, and requests at the same time share one reading of it", async () => {
  let readings = 0;
  const slow = Promise.withResolvers<void>();
  const read = async () => {
    readings += 1;
    if (readings > 1) await slow.promise;
    return facts();
  };
  await using server = await serve({ address: "127.0.0.1", read });
  expect((await server.ask("/api/v1/system")).status).toBe(200);
  const waiting = server.ask("/api/v1/system");
  await until(() => expect(readings).toBe(2));
  const others = [server.ask("/api/v1/installed"), server.ask("/api/v1/models/top")];
  const health = await server.ask("/health", { signal: AbortSignal.timeout(60_000) });
  expect(await health.json()).toMatchObject({ status: "ok", node: { name: "mini-1" } });
  expect(readings).toBe(2);
  slow.resolve();
  for (const answer of await Promise.all([waiting, ...others])) expect(answer.status).toBe(200);
  expect((await server.ask("/api/v1/system")).status).toBe(200);
});

test("a web page is refused on loopback, whatever name leads it here", async () => {
  await using server = await serve({ address: "127.0.0.1" });
  const statusFor = async (headers: Readonly<Record<string, string>>) => {
    const [response] = (await once(
      get({ host: "127.0.0.1", port: server.port, path: "/api/v1/installed", headers }),
      "response",
    )) as [IncomingMessage];
    response.resume();
    return response.statusCode;
  };
  expect(await statusFor({ host: `rebound.example:${server.port}` })).toBe(403);
  expect(await statusFor({ origin: "https://page.example" })).toBe(403);
  for (const host of ["localhost", "127.0.0.1:8787", "[::1]:8787"])
    expect(await statusFor({ host })).toBe(200);
});

test("another address answers for the token alone, and refuses plans", async () => {
  await using server = await serve({ address: testAddress(), tokenFile });
  const as = (authorization?: string) =>
    server.ask("/api/v1/system", authorization === undefined ? {} : { headers: { authorization } });
  for (const wrong of [undefined, "Bearer", `Bearer ${TOKEN}x`, `Basic ${TOKEN}`])
    expect((await as(wrong)).status, wrong).toBe(401);
  expect(await (await as(`Bearer ${TOKEN}`)).json()).toMatchObject({ system: { gpu_name: "Apple M4 Pro" } });
  const headers = { authorization: `Bearer ${TOKEN}`, "content-type": "application/json" };
  const planned = await server.ask("/api/v1/plan", { method: "POST", body: "{}", headers });
  expect([planned.status, await planned.json()]).toEqual([403, { error: "Plan restricted to localhost" }]);
});

test("it is off by default, and no address but loopback is taken without a token", () => {
  const settings = { hostName: "mini-1", stateDir: "/tmp/x", platform: "darwin" };
  const parse = (llmfit: object) => agentConfigSchema.safeParse({ ...settings, llmfit });
  expect(parse({}).data?.llmfit).toEqual({ enabled: false, address: "127.0.0.1", port: 8787 });
  expect(parse({ enabled: true, address: "::1" }).success).toBe(true);
  for (const address of ["0.0.0.0", "::", "192.168.1.20"]) {
    expect(parse({ enabled: true, address }).error?.issues[0]).toMatchObject({
      path: ["llmfit", "tokenFile"],
    });
    expect(parse({ enabled: true, address, tokenFile: "/etc/token" }).success).toBe(true);
  }
  for (const wrong of [{ address: "localhost" }, { port: 70_000 }, { port: "8787" }, { host: "::1" }])
    expect(parse(wrong).success, JSON.stringify(wrong)).toBe(false);
});

test("a node answers on the same terms, also while its cluster cannot be reached", async () => {
  expect(parseNodeConfig({}).llmfitPort).toBeUndefined();
  const open = { llmfitPort: "8787", llmfitAddress: "0.0.0.0" };
  expect(() => parseNodeConfig(open)).toThrow(/llmfitTokenFile: is required/);
  expect(parseNodeConfig({ ...open, llmfitTokenFile: "/llmfit/token" })).toMatchObject({ llmfitPort: 8787 });
  const kubeconfig = join(folder, "kubeconfig");
  const [clusters, users] = [
    [{ name: "c", cluster: { server: "https://127.0.0.1:1" } }],
    [{ name: "u", user: {} }],
  ];
  const contexts = [{ name: "c", context: { cluster: "c", user: "u" } }];
  const head = { apiVersion: "v1", kind: "Config", "current-context": "c" };
  await writeFile(kubeconfig, JSON.stringify({ ...head, clusters, users, contexts }));
  const config = parseNodeConfig({ kubeconfig, nodeName: "node-7", llmfitPort: 0 });
  const end = new AbortController();
  const lines: LogLine[] = [];
  const running = runNode({ config, log: keepLines(lines), signal: end.signal, records });
  const listening = () => lines.find(({ message }) => message === "listening for llmfit's REST API");
  await until(() => expect(listening()).toBeDefined());
  const top = await fetch(`http://127.0.0.1:${listening()?.data.port}/api/v1/models/top`);
  expect(await top.json()).toMatchObject({ node: { name: "node-7", os: "linux" }, returned_models: 5 });
  end.abort();
  await running;
});
