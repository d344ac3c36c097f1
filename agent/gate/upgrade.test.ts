/** One gate hands over to the next: no connection refused, no request lost. */
import { expect, test } from "vitest";
import { isLiving } from "../../src/supervise/fixtures/run.ts";
import { until } from "../../test/bed/until.ts";
import { gatePorts, openAgent, pidOf, prepare, startClients } from "./fixtures/process.ts";
import { beginStream, CHAT_PATH as CHAT, openRaw, post, steppedStream } from "./fixtures/route.ts";

test("an upgrade under load rejects and loses no request, and the old gate exits", async () => {
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
    expect((await second.metrics())["replica-1"]?.requests).toEqual({ 200: clients.progress.answered }),
  );
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

test("a stream that is older than an upgrade is finished by the old gate, and a drain waits for it", async () => {
  const stream = steppedStream();
  await using bed = await prepare(stream.listener);
  const first = await openAgent(gatePorts(bed.folder), [{ ...bed.route, limits: { idleMs: 200 } }]);
  const pid = await pidOf(first);
  const { response, text } = await beginStream(bed.url, stream);
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

test.each(["with its agent", "while no agent lives"])(
  "a gate that dies %s, just after it took over, is replaced although the one before it still has a stream",
  async (when) => {
    const stream = steppedStream();
    await using bed = await prepare(stream.listener);
    const first = await openAgent(gatePorts(bed.folder), [bed.route]);
    const { response, text } = await beginStream(bed.url, stream);
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

test("if the next gate cannot start, the running one stays current", async () => {
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

test("an upgrade whose answer is lost still succeeds", async () => {
  await using bed = await prepare();
  const first = await openAgent(gatePorts(bed.folder), [bed.route]);
  const pid = await pidOf(first);
  first.close();
  using second = await openAgent(gatePorts(bed.folder, { release: "2", handoverMs: 1 }));
  expect(await second.status()).toMatchObject({ release: "2", isLeaving: false });
  await until(() => expect(isLiving(pid)).toBe(false));
  expect((await post(bed.url, {})).status).toBe(200);
  // Nothing takes the folder of the living gate for one that is left over.
  second.close();
  using third = await openAgent(gatePorts(bed.folder, { release: "3" }));
  expect(await third.status()).toMatchObject({ release: "3", isLeaving: false });
  expect((await post(bed.url, {})).status).toBe(200);
});
