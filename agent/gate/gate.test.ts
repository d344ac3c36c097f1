/** The gate as a process: adopted, upgraded, restarted, and configured by a file and a socket. */
import { once } from "node:events";
import { appendFileSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { join } from "node:path";
import { expect, test } from "vitest";
import { until } from "../fixtures/until.ts";
import { isLiving, runFolder } from "../instances/process/fixtures/run.ts";
import { freePort, gatePorts, openAgent, startClients } from "./fixtures/process.ts";
import { openRaw, post, routeTo, startDaemon, steppedStream } from "./fixtures/route.ts";
import type { GateRoute } from "./routes.ts";

const CHAT = "/v1/chat/completions";

async function prepare(listener?: Parameters<typeof startDaemon>[0]) {
  const folder = runFolder();
  const daemon = await startDaemon(listener);
  const port = await freePort();
  const route: GateRoute = routeTo(daemon.port, { listen: { address: "127.0.0.1", port } });
  return {
    folder,
    daemon,
    route,
    url: `http://127.0.0.1:${port}${CHAT}`,
    [Symbol.asyncDispose]: async () => {
      await folder[Symbol.asyncDispose]();
      await daemon[Symbol.asyncDispose]();
    },
  };
}

const pidOf = async (gate: { status: () => Promise<{ readonly pid: number } | undefined> }) =>
  (await gate.status())?.pid ?? 0;

test("a gate serves on while its agent is away, and the next agent adopts it with its routes", async () => {
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
  expect((await second.metrics()).chat?.requests).toEqual({ 200: 2, 503: 1 });
  await second.set([]);
  await expect(post(bed.url, {})).rejects.toThrow();
});

test("an upgrade under load refuses and loses nothing, and the old gate exits", async () => {
  await using bed = await prepare();
  const first = await openAgent(gatePorts(bed.folder), [{ ...bed.route, limits: { idleMs: 300 } }]);
  const pid = await pidOf(first);
  const clients = startClients(bed.url, 16, (text) => text.includes("got"));
  await until(() => expect(clients.progress.answered).toBeGreaterThan(200));
  first.close();
  using second = await openAgent(gatePorts(bed.folder, { release: "2" }));
  const status = await second.status();
  expect(status).toMatchObject({ release: "2", isLeaving: false });
  expect(status?.pid).not.toBe(pid);
  const before = clients.progress.answered;
  await until(() => expect(clients.progress.answered).toBeGreaterThan(before + 200));
  await until(() => expect(isLiving(pid)).toBe(false));
  await clients.stop();
  expect(clients.failed).toEqual([]);
  // What the first gate has counted is not lost with it.
  await until(async () =>
    expect((await second.metrics()).chat?.requests).toEqual({ 200: clients.progress.answered }),
  );
});

test("a stream that is older than an upgrade is finished by the old gate, and a drain waits for it", async () => {
  const stream = steppedStream();
  await using bed = await prepare(stream.listener);
  const first = await openAgent(gatePorts(bed.folder), [{ ...bed.route, limits: { idleMs: 200 } }]);
  const pid = await pidOf(first);
  const opened = stream.next();
  const answer = post(bed.url, {});
  const response = await opened;
  response.write("data: 1\n\n");
  const text = (await answer).text();
  first.close();
  const second = await openAgent(gatePorts(bed.folder, { release: "2" }));
  expect(await second.inFlight("replica-1")).toBe(1);
  second.close();
  // Nor does the agent after that forget the old one.
  using third = await openAgent(gatePorts(bed.folder, { release: "2" }));
  expect(await third.inFlight("replica-1")).toBe(1);
  let isDrained = false;
  const drained = third.drain("replica-1").then(() => {
    isDrained = true;
  });
  await until(async () => expect((await third.status())?.routes["replica-1"]?.state).toBe("draining"));
  expect((await post(bed.url, {})).status).toBe(503);
  expect(isDrained).toBe(false);
  response.end("data: [DONE]\n\n");
  expect(await text).toBe("data: 1\n\ndata: [DONE]\n\n");
  await drained;
  expect(await third.inFlight("replica-1")).toBe(0);
  await until(() => expect(isLiving(pid)).toBe(false));
});

test("a kept-alive client that is idle during an upgrade gets its next answer from the old gate, as its last", async () => {
  await using bed = await prepare();
  const first = await openAgent(gatePorts(bed.folder), [bed.route]);
  const pid = await pidOf(first);
  const raw = await openRaw(bed.route.listen.port);
  const short = `POST ${CHAT} HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}`;
  raw.socket.write(short);
  await until(() => expect(raw.text).toContain("got"));
  first.close();
  using second = await openAgent(gatePorts(bed.folder, { release: "2" }));
  expect(await pidOf(second)).not.toBe(pid);
  raw.text = "";
  raw.socket.write(short);
  await until(() => expect(raw.isEnded).toBe(true));
  expect(raw.text).toMatch(/^HTTP\/1\.1 200[\s\S]*connection: close[\s\S]*got/i);
  await until(() => expect(isLiving(pid)).toBe(false));
});

test.each(["with its agent", "while no agent lives"])(
  "a gate that dies %s, just after it took over, is replaced although the one before it still has a stream",
  async (when) => {
    const stream = steppedStream();
    await using bed = await prepare(stream.listener);
    const first = await openAgent(gatePorts(bed.folder), [bed.route]);
    const opened = stream.next();
    const answer = post(bed.url, {});
    const response = await opened;
    response.write("data: 1\n\n");
    const text = (await answer).text();
    first.close();
    const second = await openAgent(gatePorts(bed.folder, { release: "2" }));
    const pid = await pidOf(second);
    if (when === "while no agent lives") second.close();
    process.kill(pid, "SIGKILL");
    await until(() => expect(isLiving(pid)).toBe(false));
    const third = when === "while no agent lives" ? await openAgent(gatePorts(bed.folder)) : second;
    const health = bed.url.replace(CHAT, "/health");
    await until(async () => expect((await fetch(health)).status).toBe(200));
    response.end("data: [DONE]\n\n");
    expect(await text).toContain("[DONE]");
    third.close();
  },
);

test("a gate that is stopped finishes what is in flight, and nothing starts it again", async () => {
  const stream = steppedStream();
  await using bed = await prepare(stream.listener);
  using gate = await openAgent(gatePorts(bed.folder), [bed.route]);
  const pid = await pidOf(gate);
  const opened = stream.next();
  const answer = post(bed.url, {});
  const response = await opened;
  response.write("data: 1\n\n");
  const text = (await answer).text();
  gate.stopBy(performance.now() + 60_000);
  await until(async () => await expect(fetch(bed.url.replace(CHAT, "/health"))).rejects.toThrow());
  response.end("data: [DONE]\n\n");
  expect(await text).toContain("[DONE]");
  await until(() => expect(isLiving(pid)).toBe(false));
  expect(await gate.status()).toBeUndefined();
});

test("a next gate that cannot start leaves the running one in charge", async () => {
  await using bed = await prepare();
  const first = await openAgent(gatePorts(bed.folder), [bed.route]);
  const pid = await pidOf(first);
  first.close();
  const env = { PATH: process.env.PATH ?? "", NODE_OPTIONS: "--no-such-option" };
  using second = await openAgent(gatePorts(bed.folder, { release: "2", env }));
  expect(await second.status()).toMatchObject({ pid, release: "1", isLeaving: false });
  expect((await post(bed.url, {})).status).toBe(200);
  using third = await openAgent(gatePorts(bed.folder, { release: "3" }));
  expect(await third.status()).toMatchObject({ release: "3" });
  expect((await post(bed.url, {})).status).toBe(200);
});

test("a gate that is killed is started again, with the routes of before", async () => {
  await using bed = await prepare();
  using gate = await openAgent(gatePorts(bed.folder), [bed.route]);
  for (let round = 0; round < 2; round += 1) {
    const pid = await pidOf(gate);
    process.kill(pid, "SIGKILL");
    await until(async () => expect(await pidOf(gate)).not.toBe(pid));
    await until(async () => expect((await post(bed.url, {})).status).toBe(200));
  }
});

test("a gate that was killed while no agent lived is started by the next one", async () => {
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

test("a hung gate is replaced", async () => {
  await using bed = await prepare();
  const first = await openAgent(gatePorts(bed.folder), [bed.route]);
  const pid = await pidOf(first);
  first.close();
  process.kill(pid, "SIGSTOP");
  using second = await openAgent(gatePorts(bed.folder));
  expect(await pidOf(second)).not.toBe(pid);
  expect((await post(bed.url, {})).status).toBe(200);
  expect(isLiving(pid)).toBe(false);
});

test("a file that is no set of routes changes nothing, and the status says so", async () => {
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

test("nothing of earlier gates stays on disk, and no key is in an argument or a record", async () => {
  await using bed = await prepare();
  const keys = join(bed.folder.root, "keys");
  writeFileSync(keys, "secret-of-the-service\n");
  const routes = [{ ...bed.route, keyFiles: [keys], limits: { idleMs: 200 } }];
  for (const release of ["1", "2", "3", "4"]) {
    using gate = await openAgent(gatePorts(bed.folder, { release }), routes);
    expect((await gate.status())?.release).toBe(release);
    expect((await post(bed.url, {}, { authorization: "Bearer secret-of-the-service" })).status).toBe(200);
  }
  const left = readdirSync(join(bed.folder.root, "gate"), { recursive: true, withFileTypes: true });
  const files = left.filter((entry) => entry.isFile()).map((entry) => join(entry.parentPath, entry.name));
  expect(files.filter((file) => readFileSync(file, "utf8").includes("secret-of-the-service"))).toEqual([]);
  expect(left.filter((entry) => entry.name === "engine.json").length).toBeLessThanOrEqual(3);
});
