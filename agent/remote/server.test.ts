/** The limits of a host's remote access, over real TLS connections and real files. */
import { appendFileSync, mkdirSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import type { IncomingMessage } from "node:http";
import { request } from "node:https";
import path from "node:path";
import { text } from "node:stream/consumers";
import { connect } from "node:tls";
import fc from "fast-check";
import { expect, onTestFinished, test, vi } from "vitest";
import { DOCTOR_ACCOUNT, LOGS_ACCOUNT, TRAILER_END } from "../../src/api/access/remote.ts";
import { NAMESPACE_SYSTEM } from "../../src/api/group.ts";
import { systemClock } from "../../src/kube/system-clock.ts";
import type { Clock } from "../../src/util/ports.ts";
import { quietLog } from "../../test/cluster/quiet-log.ts";
import { temporaryFolder } from "../../test/fixtures/temporary-folder.ts";
import { createPeerIdentity } from "../peers/identity.ts";
import type { Requester } from "./authorize.ts";
import { REMOTE_LIMITS, type RemoteServerOptions, startRemoteServer } from "./server.ts";

const PATIENTLY = { timeout: 60_000, interval: 10 };
const LINE = `${"x".repeat(99)}\n`;

/** A token of the form `namespace/name` authenticates as that account. */
async function host(changes: Partial<RemoteServerOptions> = {}) {
  const folder = await temporaryFolder();
  const stop = new AbortController();
  onTestFinished(async () => {
    stop.abort();
    await folder[Symbol.asyncDispose]();
  });
  const dir = path.join(folder.path, "engines", "u1");
  mkdirSync(dir, { recursive: true });
  const port = await startRemoteServer({
    identity: createPeerIdentity("mini"),
    address: "127.0.0.1",
    port: 0,
    stateDir: folder.path,
    replicas: () => ["u1", "u2"].map((uid) => ({ uid, namespace: "team" })),
    doctor: undefined,
    authorize: async (token): Promise<Requester> => {
      const [namespace = "", name = ""] = token.split("/");
      return { at: "account", namespace, name };
    },
    clock: systemClock,
    log: quietLog,
    signal: stop.signal,
    ...changes,
  });
  return { dir, log: path.join(dir, "log"), port, stop: () => stop.abort() };
}

function ask(
  port: number,
  target: string,
  token = `team/${LOGS_ACCOUNT}`,
  method = "GET",
): Promise<IncomingMessage> {
  const headers = { authorization: `Bearer ${token}` };
  return new Promise((resolve, reject) => {
    const options = { host: "127.0.0.1", port, path: target, method, headers, rejectUnauthorized: false };
    const asked = request({ ...options, agent: false }, resolve);
    asked.once("error", reject);
    asked.end();
    onTestFinished(() => void asked.destroy());
  });
}

test("the number of readers of one namespace is limited, and a reader that leaves frees its place", async () => {
  const { log, port } = await host({ limits: { ...REMOTE_LIMITS, readers: 3, readersPerNamespace: 2 } });
  writeFileSync(log, LINE);
  const [first] = await Promise.all([1, 2].map(() => ask(port, "/v1/logs/u1?follow=1")));
  expect((await ask(port, "/v1/logs/u1")).statusCode).toBe(429);
  first?.destroy();
  await vi.waitFor(async () => expect((await ask(port, "/v1/logs/u1")).statusCode).toBe(200), PATIENTLY);
});

test("a client that reads nothing is disconnected, and its slot is free again", async () => {
  const log = { ...REMOTE_LIMITS.log, stallMs: 300 };
  const { port, ...files } = await host({
    limits: { ...REMOTE_LIMITS, log, readers: 1, bytesPerSecond: 1 << 30 },
  });
  writeFileSync(files.log, LINE.repeat(400_000));
  const slow = connect({ host: "127.0.0.1", port, rejectUnauthorized: false });
  slow.pause();
  slow.on("error", () => undefined);
  slow.write(`GET /v1/logs/u1 HTTP/1.1\r\nauthorization: Bearer team/${LOGS_ACCOUNT}\r\n\r\n`);
  const statusOf = async () => {
    const answer = await ask(port, "/v1/logs/u1?tail=1");
    answer.resume();
    return answer.statusCode;
  };
  await vi.waitFor(async () => expect(await statusOf()).toBe(429), PATIENTLY);
  await vi.waitFor(async () => expect(await statusOf()).toBe(200), PATIENTLY);
  const ended = new Promise((resolve) => slow.once("close", resolve));
  slow.resume();
  await ended;
  expect(slow.bytesRead).toBeLessThan(40_000_000);
});

test("a log is limited in size and time, and its trailer names the limit", async () => {
  const log = { ...REMOTE_LIMITS.log, maxBytes: 300_000, maxMs: 700 };
  const { dir, port, ...files } = await host({ limits: { ...REMOTE_LIMITS, log } });
  const endOf = async (target: string) => {
    const answer = await ask(port, target);
    const body = await text(answer);
    return [answer.trailers[TRAILER_END], body.length];
  };
  writeFileSync(files.log, LINE.repeat(5_000));
  expect(await endOf("/v1/logs/u1")).toEqual(["size", 262_144]);
  expect(await endOf("/v1/logs/u1?tail=10")).toEqual(["read", 1_000]);
  expect(await endOf("/v1/logs/u1?tail=0&follow=1")).toEqual(["time", 0]);
  const answer = await ask(port, "/v1/logs/u1?tail=0&follow=1");
  appendFileSync(files.log, LINE);
  rmSync(dir, { recursive: true });
  await text(answer);
  expect(answer.trailers[TRAILER_END]).toBe("left");
});

test("a log that takes longer than an answer may last ends there, also while there is more to read", async () => {
  const log = { ...REMOTE_LIMITS.log, maxMs: 200 };
  const { port, ...files } = await host({ limits: { ...REMOTE_LIMITS, log, bytesPerSecond: 1 << 20 } });
  writeFileSync(files.log, LINE.repeat(10_000));
  const answer = await ask(port, "/v1/logs/u1");
  expect((await text(answer)).length).toBeLessThanOrEqual(262_144);
  expect(answer.trailers[TRAILER_END]).toBe("time");
});

test("a client that disconnects while its token is reviewed occupies no slot", async () => {
  const connections = { total: 1, perAddress: 1 };
  const { promise: isAsked, resolve: asked } = Promise.withResolvers<void>();
  const { promise: review, resolve: finish } = Promise.withResolvers<void>();
  const authorize = async (): Promise<Requester> => {
    asked();
    await review;
    return { at: "account", namespace: "team", name: LOGS_ACCOUNT };
  };
  const { log, port } = await host({ authorize, limits: { ...REMOTE_LIMITS, connections, readers: 1 } });
  writeFileSync(log, "");
  const early = connect({ host: "127.0.0.1", port, rejectUnauthorized: false });
  early.on("error", () => undefined);
  early.write("GET /v1/logs/u1?follow=1 HTTP/1.1\r\nauthorization: Bearer t\r\n\r\n");
  await isAsked;
  early.destroy();
  // It has left when its connection is free for another one.
  await vi.waitFor(async () => expect((await ask(port, "/none")).statusCode).toBe(404), PATIENTLY);
  finish();
  await vi.waitFor(async () => expect((await ask(port, "/v1/logs/u1")).statusCode).toBe(200), PATIENTLY);
});

test("a link in place of a log is not followed", async () => {
  const { log, dir, port } = await host();
  const secret = path.join(dir, "..", "..", "kubeconfig");
  writeFileSync(secret, "secret\n");
  symlinkSync(secret, log);
  const answer = await ask(port, "/v1/logs/u1").catch(() => undefined);
  const body = answer === undefined ? "" : await text(answer).catch(() => "");
  expect(body).not.toContain("secret");
  expect((await ask(port, "/v1/logs/u2")).statusCode).toBe(200);
});

test("no path and no query leads to another file than a replica's log", async () => {
  const { log, dir, port } = await host();
  writeFileSync(log, LINE);
  writeFileSync(path.join(dir, "secret"), "secret\n");
  const part = fc.oneof(
    fc.constantFrom("..", "%2e%2e", "u1", "secret", "log", "v1", "logs", "", "."),
    fc.webSegment(),
  );
  const target = fc.record({ parts: fc.array(part, { maxLength: 4 }), query: fc.webQueryParameters() });
  const check = async ({ parts, query }: { readonly parts: readonly string[]; readonly query: string }) => {
    const answer = await ask(port, `/v1/logs/${parts.join("/")}?tail=1&${query.replaceAll("follow", "")}`);
    expect(["", LINE]).toContain(answer.statusCode === 200 ? await text(answer) : "");
    answer.resume();
  };
  await fc.assert(fc.asyncProperty(target, check), { numRuns: 30 });
});

test("concurrent and soon repeated requests share one run of doctor, and its failure does not end the agent", async () => {
  let runs = 0;
  let finish = (_: string): void => undefined;
  const doctor = () => {
    runs += 1;
    if (runs > 1) return Promise.reject(new Error("it hangs"));
    return new Promise<string>((resolve) => {
      finish = resolve;
    });
  };
  const { port } = await host({ doctor, limits: { ...REMOTE_LIMITS, reportMs: 200 } });
  const token = `${NAMESPACE_SYSTEM}/${DOCTOR_ACCOUNT}`;
  const both = [1, 2].map(() => ask(port, "/v1/doctor", token));
  await vi.waitFor(() => expect(runs).toBe(1), PATIENTLY);
  finish("{}");
  for (const answer of await Promise.all(both)) expect(await text(answer)).toBe("{}");
  expect(await text(await ask(port, "/v1/doctor", token))).toBe("{}");
  expect(runs).toBe(1);
  await vi.waitFor(
    async () => expect((await ask(port, "/v1/doctor", token)).statusCode).toBe(500),
    PATIENTLY,
  );
});

test("an answer that its client does not read is cut off", async () => {
  const log = { ...REMOTE_LIMITS.log, stallMs: 300 };
  const report = "x".repeat(32 << 20);
  const { promise: isCut, resolve } = Promise.withResolvers<void>();
  const after: Clock["after"] = (ms, act) =>
    systemClock.after(ms, () => {
      act();
      if (ms === log.stallMs) resolve();
    });
  const { port } = await host({
    doctor: async () => report,
    clock: { ...systemClock, after },
    limits: { ...REMOTE_LIMITS, log },
  });
  const slow = connect({ host: "127.0.0.1", port, rejectUnauthorized: false });
  slow.on("error", () => undefined);
  slow.pause();
  slow.write(
    `GET /v1/doctor HTTP/1.1\r\nauthorization: Bearer ${NAMESPACE_SYSTEM}/${DOCTOR_ACCOUNT}\r\n\r\n`,
  );
  await isCut;
  const ended = new Promise((resolve) => slow.once("close", resolve));
  slow.resume();
  await ended;
  expect(slow.bytesRead).toBeLessThan(report.length);
});

test("a connection is closed after a refusal, also one that is not read", async () => {
  const timers: number[] = [];
  const after: Clock["after"] = (ms, act) => {
    timers.push(ms);
    return systemClock.after(ms, act);
  };
  const { port } = await host({ clock: { ...systemClock, after } });
  const stranger = connect({ host: "127.0.0.1", port, rejectUnauthorized: false });
  stranger.write("GET /v1/logs/u1 HTTP/1.1\r\n\r\nGET /v1/logs/u1 HTTP/1.1\r\n\r\n");
  const answers = await text(stranger);
  expect(answers.match(/HTTP\/1.1 \d+/g)).toEqual(["HTTP/1.1 401"]);
  expect(timers).toContain(REMOTE_LIMITS.log.stallMs);
  const stopped = await ask(port, "/v1/logs/u1", undefined, "HEAD");
  expect([stopped.statusCode, stopped.headers.allow]).toEqual([405, "GET"]);
});

test("a route that is off answers 404, and a client that does not speak HTTP gets no answer", async () => {
  const { port } = await host({ replicas: undefined });
  for (const target of ["/v1/logs/u1", "/v1/doctor", "/v1", "/metrics"])
    expect([target, (await ask(port, target)).statusCode]).toEqual([target, 404]);
  const stranger = connect({ host: "127.0.0.1", port, rejectUnauthorized: false });
  const closed = new Promise((resolve) => stranger.once("close", resolve));
  stranger.end("SSH-2.0-x\r\n\r\n");
  stranger.resume();
  await closed;
  expect(stranger.bytesRead).toBe(0);
});
