import { once } from "node:events";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { freePort } from "../../test/bed/ports.ts";
import { until } from "../../test/bed/until.ts";
import { createSteppedClock } from "../../test/controller/stepped-clock.ts";
import { keepLines, type LogLine } from "../../test/fixtures/log-lines.ts";
import { testAddress } from "../fixtures/agent.ts";
import { someFacts } from "./fixtures/facts.ts";
import { startServer } from "./server.ts";

const TOKEN = "sesame-0123456789";
let folder = "";
let tokenFile = "";

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "mb-token-"));
  tokenFile = join(folder, "token");
});
afterAll(() => rm(folder, { recursive: true }));

async function serve(port: number, lines: LogLine[] = []) {
  await writeFile(tokenFile, `${TOKEN}\n`);
  const end = new AbortController();
  const clock = createSteppedClock();
  const inside = await startServer({
    clock,
    port: 0,
    log: keepLines(lines),
    signal: end.signal,
    facts: someFacts,
    readEngines: async () => [],
    readGate: async () => [],
    problems: () => [{ code: "HostNotRegistered", message: "there is no Host mac-1" }],
    outside: { address: testAddress(), port, tokenFile },
  });
  const ask = async (path: string, authorization?: string): Promise<string> => {
    const headers = authorization === undefined ? {} : { authorization };
    const response = await fetch(`http://${testAddress()}:${port}${path}`, { headers });
    return `${response.status} ${await response.text()}`;
  };
  return { clock, inside, ask, [Symbol.asyncDispose]: async () => end.abort() };
}

test("loopback needs no token and has all three pages", async () => {
  await using server = await serve(await freePort(testAddress()));
  const at = `http://127.0.0.1:${server.inside}`;
  expect(await (await fetch(`${at}/healthz`)).text()).toBe("ok\n");
  const readiness = await fetch(`${at}/readyz`);
  expect([readiness.status, await readiness.text()]).toEqual([
    503,
    "HostNotRegistered: there is no Host mac-1\n",
  ]);
  const metrics = await fetch(`${at}/metrics`);
  expect(metrics.headers.get("content-type")).toBe("text/plain; version=0.0.4; charset=utf-8");
  expect(await metrics.text()).toContain("metalbridge_agent_info{");
});

test("from outside there are metrics for the token and nothing else", async () => {
  await using server = await serve(await freePort(testAddress()));
  const listening = () => server.ask("/metrics", `Bearer ${TOKEN}`);
  await until(async () => expect(await listening()).toContain("metalbridge_agent_info{"));
  expect(await server.ask("/metrics", `bearer ${TOKEN}`)).toMatch(/^200 /);
  for (const wrong of [undefined, "Bearer", `Bearer ${TOKEN}x`, `Basic ${TOKEN}`, TOKEN, "Bearer a b"])
    expect(await server.ask("/metrics", wrong), wrong).toMatch(/^401 /);
  for (const path of ["/healthz", "/readyz", "/", "/metrics/x"])
    expect(await server.ask(path, `Bearer ${TOKEN}`)).toBe("404 not found\n");
});

test("a new token in the file takes effect at once; a file without a token refuses all requests", async () => {
  await using server = await serve(await freePort(testAddress()));
  await until(async () => expect(await server.ask("/metrics", `Bearer ${TOKEN}`)).toMatch(/^200 /));
  await writeFile(tokenFile, "another");
  expect(await server.ask("/metrics", `Bearer ${TOKEN}`)).toMatch(/^401 /);
  expect(await server.ask("/metrics", "Bearer another")).toMatch(/^200 /);
  await writeFile(tokenFile, "\n");
  expect(await server.ask("/metrics", "Bearer another")).toMatch(/^503 /);
  await rm(tokenFile);
  expect(await server.ask("/metrics", "Bearer another")).toMatch(/^503 /);
  expect(await server.ask("/metrics")).toMatch(/^401 /);
});

test("an address that cannot be bound yet is retried, and logged once", async () => {
  const port = await freePort(testAddress());
  const squatter = createServer().listen(port, testAddress());
  await once(squatter, "listening");
  const lines: LogLine[] = [];
  await using server = await serve(port, lines);
  const complaints = () => lines.filter(({ level }) => level === "warn");
  await until(() => expect(complaints()).toHaveLength(1));
  server.clock.advance(10_000);
  await expect(fetch(`http://127.0.0.1:${server.inside}/healthz`)).resolves.toMatchObject({ status: 200 });
  squatter.close();
  await once(squatter, "close");
  await until(async () => {
    server.clock.advance(10_000);
    expect(await server.ask("/metrics", `Bearer ${TOKEN}`)).toMatch(/^200 /);
  });
  expect(complaints()).toHaveLength(1);
});
