/** The gate as a process: adopted, restarted, and configured by a file and a socket. */
import { once } from "node:events";
import { appendFileSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { join } from "node:path";
import { expect, test } from "vitest";
import { isLiving } from "../../src/supervise/fixtures/run.ts";
import { until } from "../../test/bed/until.ts";
import { gatePorts, openAgent, pidOf, prepare } from "./fixtures/process.ts";
import { beginStream, CHAT_PATH as CHAT, post, steppedStream } from "./fixtures/route.ts";

test("a gate keeps serving while no agent runs, and the next agent adopts it with its routes", async () => {
  await using bed = await prepare();
  const ports = gatePorts(bed.folder);
  const first = await openAgent(ports, [bed.route]);
  const pid = await pidOf(first);
  expect((await post(bed.url, {})).status).toBe(200);
  first.close();
  expect((await post(bed.url, {})).status).toBe(200);

  using second = await openAgent(gatePorts(bed.folder));
  expect(await pidOf(second)).toBe(pid);
  expect((await second.status())?.routes).toMatchObject({
    "replica-1": { state: "passing", listening: true },
  });
  await second.set([{ ...bed.route, state: "none" }]);
  expect((await post(bed.url, {})).status).toBe(503);
  expect((await second.metrics())["replica-1"]?.requests).toEqual({ 200: 2, 503: 1 });
  await second.set([]);
  await expect(post(bed.url, {})).rejects.toThrow();
});

test("a gate that is stopped finishes requests in flight, and is not started again", async () => {
  const stream = steppedStream();
  await using bed = await prepare(stream.listener);
  using gate = await openAgent(gatePorts(bed.folder), [bed.route]);
  const pid = await pidOf(gate);
  const { response, text } = await beginStream(bed.url, stream);
  const stopped = gate.stopBy(performance.now() + 60_000);
  await until(async () => await expect(fetch(bed.url.replace(CHAT, "/health"))).rejects.toThrow());
  response.end("data: [DONE]\n\n");
  expect(await text).toContain("[DONE]");
  await stopped;
  expect(isLiving(pid)).toBe(false);
  expect(await gate.status()).toBeUndefined();
});

test("a gate that is killed is started again, with its previous routes", async () => {
  await using bed = await prepare();
  using gate = await openAgent(gatePorts(bed.folder), [bed.route]);
  for (let round = 0; round < 2; round += 1) {
    const pid = await pidOf(gate);
    process.kill(pid, "SIGKILL");
    await until(async () => expect(await pidOf(gate)).not.toBe(pid));
    await until(async () => expect((await post(bed.url, {})).status).toBe(200));
  }
});

test("a gate that was killed while no agent ran is started by the next agent", async () => {
  await using bed = await prepare();
  const first = await openAgent(gatePorts(bed.folder), [bed.route]);
  const pid = await pidOf(first);
  first.close();
  process.kill(pid, "SIGKILL");
  await until(() => expect(isLiving(pid)).toBe(false));
  using second = await openAgent(gatePorts(bed.folder));
  expect((await post(bed.url, {})).status).toBe(200);
  expect(await pidOf(second)).not.toBe(pid);
});

test("a gate that hangs is replaced by its agent", async () => {
  await using bed = await prepare();
  using gate = await openAgent(gatePorts(bed.folder, { hungMs: 0 }), [bed.route]);
  const pid = await pidOf(gate);
  process.kill(pid, "SIGSTOP");
  expect(await gate.status()).toBeUndefined();
  await until(async () => expect([0, pid]).not.toContain(await pidOf(gate)));
  expect((await post(bed.url, {})).status).toBe(200);
  expect(isLiving(pid)).toBe(false);
});

test("a hung gate is replaced by the next agent", async () => {
  await using bed = await prepare();
  const first = await openAgent(gatePorts(bed.folder), [bed.route]);
  const pid = await pidOf(first);
  first.close();
  process.kill(pid, "SIGSTOP");
  using second = await openAgent(gatePorts(bed.folder, { hungMs: 0 }));
  expect(await pidOf(second)).not.toBe(pid);
  expect((await post(bed.url, {})).status).toBe(200);
  expect(isLiving(pid)).toBe(false);
});

test("a gate that answers late is adopted, with its streams", async () => {
  const stream = steppedStream();
  await using bed = await prepare(stream.listener);
  const first = await openAgent(gatePorts(bed.folder), [bed.route]);
  const pid = await pidOf(first);
  const { response, text } = await beginStream(bed.url, stream);
  first.close();
  process.kill(pid, "SIGSTOP");
  // Longer than the first question waits for an answer.
  setTimeout(() => process.kill(pid, "SIGCONT"), 6_000);
  using second = await openAgent(gatePorts(bed.folder));
  expect(await pidOf(second)).toBe(pid);
  response.end("data: [DONE]\n\n");
  expect(await text).toContain("[DONE]");
});

test("a gate that another program terminates finishes its streams, while a new gate takes new requests", async () => {
  const stream = steppedStream();
  await using bed = await prepare(stream.listener);
  using gate = await openAgent(gatePorts(bed.folder), [bed.route]);
  const pid = await pidOf(gate);
  const { response, text } = await beginStream(bed.url, stream);
  process.kill(pid, "SIGTERM");
  const health = bed.url.replace(CHAT, "/health");
  await until(async () => await expect(fetch(health)).rejects.toThrow());
  await until(async () => expect(await pidOf(gate)).not.toBe(pid));
  await until(async () => expect((await fetch(health)).status).toBe(200));
  response.end("data: [DONE]\n\n");
  expect(await text).toContain("[DONE]");
  await until(() => expect(isLiving(pid)).toBe(false));
});

test("an invalid routes file changes no route, and the status reports it", async () => {
  await using bed = await prepare();
  const ports = gatePorts(bed.folder);
  using gate = await openAgent(ports, [bed.route]);
  const twice = { ...bed.route, id: "replica-2" };
  expect((await gate.set([bed.route, twice]))?.fileProblem).toMatch(/two routes have the same address/);
  expect((await post(bed.url, {})).status).toBe(200);
  writeFileSync(join(ports.folder, "routes.json"), '{"routes": [');
  appendFileSync(join(ports.folder, "routes.json"), "\n");
  expect((await post(bed.url, {})).status).toBe(200);
  expect((await gate.set([bed.route]))?.fileProblem).toBeUndefined();
});

test("a port that another program holds is reported, and taken once it is free", async () => {
  await using bed = await prepare();
  const { port } = bed.route.listen;
  const other = createServer().listen(port, "127.0.0.1");
  await once(other, "listening");
  using gate = await openAgent(gatePorts(bed.folder), [bed.route]);
  expect((await gate.status())?.routes["replica-1"]).toMatchObject({
    listening: false,
    problems: [expect.stringContaining("EADDRINUSE")],
  });
  other.close();
  await until(async () => expect((await post(bed.url, {})).status).toBe(200));
  expect((await gate.status())?.routes["replica-1"]).toMatchObject({ listening: true, problems: [] });
});

test("no files of earlier gates stay on disk, and no key is in an argument or a record", async () => {
  await using bed = await prepare();
  const keys = join(bed.folder.root, "keys");
  writeFileSync(keys, "secret-of-the-service\n");
  const routes = [{ ...bed.route, keyFiles: [keys], limits: { idleMs: 200 } }];
  let before = 0;
  for (const release of ["1", "2", "3", "4"]) {
    using gate = await openAgent(gatePorts(bed.folder, { release }), routes);
    const status = await gate.status();
    expect(status?.release).toBe(release);
    expect((await post(bed.url, {}, { authorization: "Bearer secret-of-the-service" })).status).toBe(200);
    const last = before;
    if (last !== 0) await until(() => expect(isLiving(last)).toBe(false));
    before = status?.pid ?? 0;
  }
  // The shim of the gate before may only now be writing how it exited.
  await until(() => {
    const left = readdirSync(join(bed.folder.root, "gate"), { recursive: true, withFileTypes: true });
    const files = left.filter((entry) => entry.isFile()).map((entry) => join(entry.parentPath, entry.name));
    expect(files.filter((file) => readFileSync(file, "utf8").includes("secret-of-the-service"))).toEqual([]);
    expect(left.filter((entry) => entry.name === "engine.json").length).toBeLessThanOrEqual(3);
  });
});
