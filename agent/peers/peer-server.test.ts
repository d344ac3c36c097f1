/** A host serves only hosts of the cluster, only models that are assigned to them, and closes other connections at once. */
import { subscribe, unsubscribe } from "node:diagnostics_channel";
import { once } from "node:events";
import { readdir, readlink, realpath } from "node:fs/promises";
import { request } from "node:https";
import { connect, type Socket } from "node:net";
import { connect as connectTls } from "node:tls";
import fc from "fast-check";
import { expect, onTestFinished, test, vi } from "vitest";
import { ggufBytes, type Origin, sendFile, sha256, startOrigin } from "../../test/fixtures/origin.ts";
import { CHUNK_BYTES } from "../store/content/prefix-hash.ts";
import { fetchOptions } from "../store/fixtures/store.ts";
import { createPeerFleet, type Member, type MemberOptions, type PeerFleet } from "./fixtures/peer-fleet.ts";
import { createPeerIdentity, type PeerIdentity } from "./identity.ts";
import { PEER_CONNECTION_LIMITS } from "./peer-connections.ts";
import { chunkStart } from "./peer-server.ts";

const PATIENCE = { timeout: 60_000 };
const content = ggufBytes(4 * CHUNK_BYTES + 12_345, 7);
const sum = sha256(content);
const path = `/sha256/${sum}`;
const CHUNK_LAST = BigInt(CHUNK_BYTES - 1);

async function begin(): Promise<{ fleet: PeerFleet; origin: Origin; source: string }> {
  const origin = await startOrigin();
  onTestFinished(() => origin[Symbol.asyncDispose]());
  origin.serve("/model.gguf", content);
  return { fleet: createPeerFleet(), origin, source: `${origin.url}/model.gguf` };
}

async function join(fleet: PeerFleet, name: string, options?: MemberOptions): Promise<Member> {
  const member = await fleet.add(name, { limits: { directoryMs: 10_000 }, ...options });
  onTestFinished(() => member[Symbol.asyncDispose]());
  return member;
}

async function fetchOn(member: Member, source: string, more: object = {}): Promise<void> {
  await member.store.fetch({ source, sha256: sum, ...more }, fetchOptions());
  await member.report();
}

/** Sends a request as `identity`, or without a certificate. */
function ask(
  port: number,
  path: string,
  identity?: PeerIdentity,
  options: { method?: string; headers?: Record<string, string> } = {},
): Promise<{ status: number; headers: Record<string, unknown>; body: Buffer }> {
  return new Promise((resolve, reject) => {
    const own = identity === undefined ? {} : { key: identity.key, cert: identity.cert };
    const asked = request(
      { host: "127.0.0.1", port, path, rejectUnauthorized: false, agent: false, ...own, ...options },
      (response) => {
        const pieces: Buffer[] = [];
        response.on("data", (piece: Buffer) => pieces.push(piece));
        response.on("error", reject);
        response.on("end", () =>
          resolve({
            status: response.statusCode ?? 0,
            headers: response.headers,
            body: Buffer.concat(pieces),
          }),
        );
      },
    );
    asked.on("error", reject);
    asked.end();
  });
}

/** What a client that does not read cannot see. Resolves when the server at this port, in this process, closes the next connection that it accepts. */
function disconnection(port: number): Promise<void> {
  const gone = Promise.withResolvers<void>();
  const see = (message: unknown): void => {
    const { socket } = message as { readonly socket: Socket };
    if (socket.localPort === port) socket.once("close", () => gone.resolve());
  };
  subscribe("net.server.socket", see);
  onTestFinished(() => void unsubscribe("net.server.socket", see));
  return gone.promise;
}

test("a client that is not a host of the cluster gets no content", PATIENCE, async () => {
  const { fleet, source } = await begin();
  const provider = await join(fleet, "provider");
  await fetchOn(provider, source);
  const member = await join(fleet, "member");
  fleet.assign("member", { source });
  const path = `/sha256/${sum}`;
  expect((await ask(provider.port, path, member.identity, { method: "HEAD" })).status).toBe(200);
  await expect(ask(provider.port, path)).rejects.toThrow();
  // A certificate of the same name, as of another cluster.
  await expect(ask(provider.port, path, createPeerIdentity("member"))).rejects.toThrow();
  fleet.remove("member");
  await expect(ask(provider.port, path, member.identity)).rejects.toThrow();
});

test("content is served only by checksum and complete chunk", PATIENCE, async () => {
  const { fleet, source } = await begin();
  const provider = await join(fleet, "provider");
  await fetchOn(provider, source);
  const { identity } = await join(fleet, "member");
  fleet.assign("member", { source });
  const status = async (path: string, options: Parameters<typeof ask>[3] = {}) =>
    (await ask(provider.port, path, identity, options)).status;
  const chunk = { headers: { range: `bytes=0-${CHUNK_BYTES - 1}` } };
  const given = await ask(provider.port, `/sha256/${sum}`, identity, chunk);
  expect(given.status).toBe(206);
  expect(given.body.equals(content.subarray(0, CHUNK_BYTES))).toBe(true);
  for (const path of [
    "/",
    "/sha256/",
    `/sha256/${sum.toUpperCase()}`,
    `/sha256/${"0".repeat(64)}`,
    `/sha256/../sha256/${sum}`,
    `/sha256/..%2f..%2fspeeds.json`,
    `/sha256/${sum}/../../../etc/passwd`,
    `/sha256/${sum}?x`,
    `//sha256/${sum}`,
    "/etc/passwd",
    "/model.gguf",
  ])
    expect([path, await status(path, chunk)]).toEqual([path, 404]);
  for (const range of ["bytes=0-", "bytes=1-4194304", "bytes=0-99", "bytes=-5", "bytes=0-1,2-3", "x"])
    expect([range, await status(`/sha256/${sum}`, { headers: { range } })]).toEqual([range, 416]);
  const far = `bytes=${CHUNK_BYTES * 99}-${CHUNK_BYTES * 100 - 1}`;
  expect(await status(`/sha256/${sum}`, { headers: { range: far } })).toBe(416);
  for (const method of ["POST", "PUT", "DELETE", "OPTIONS"])
    expect([method, await status(`/sha256/${sum}`, { method })]).toEqual([method, 405]);
});

test("a range that is not exactly one chunk is rejected", () => {
  const near = fc.integer({ min: -2, max: 2 });
  const chunk = fc.oneof(fc.nat(40), fc.nat(2 ** 27)).map((index) => index * CHUNK_BYTES);
  const range = fc.oneof(
    fc.string(),
    fc.tuple(chunk, near, near).map(([start, a, b]) => `bytes=${start + a}-${start + CHUNK_BYTES - 1 + b}`),
    fc.tuple(fc.maxSafeNat(), fc.maxSafeNat()).map(([from, to]) => `bytes=${from}-${to}`),
  );
  fc.assert(
    fc.property(range, (text) => {
      const [, from = "", to = ""] = /^bytes=(\d+)-(\d+)$/.exec(text) ?? [];
      const isWhole =
        from !== "" && BigInt(from) % BigInt(CHUNK_BYTES) === 0n && BigInt(to) - BigInt(from) === CHUNK_LAST;
      expect(chunkStart(text)).toBe(isWhole ? Number(from) : undefined);
    }),
    { numRuns: 1_000 },
  );
  expect(chunkStart(undefined)).toBeUndefined();
});

test("a host is served only models that its replicas or the operator name", PATIENCE, async () => {
  const { fleet, source } = await begin();
  const provider = await join(fleet, "provider");
  await fetchOn(provider, source);
  const { identity } = await join(fleet, "member");
  const status = async () => (await ask(provider.port, path, identity, { method: "HEAD" })).status;
  expect(await status()).toBe(404);
  fleet.assign("other", { source });
  expect(await status()).toBe(404);
  fleet.assign("member", { source });
  // What is not named is read again in a while.
  await vi.waitFor(async () => expect(await status()).toBe(200), { timeout: 20_000, interval: 250 });
});

function gate(origin: Origin, at: string, token: string): void {
  origin.on(at, (incoming, response) => {
    if (incoming.headers.authorization === `Bearer ${token}`) return sendFile(incoming, response, content);
    response.writeHead(401).end();
  });
}

test(
  "weights that required credentials are served to hosts whose own credentials the origin accepts",
  PATIENCE,
  async () => {
    const { fleet, origin, source } = await begin();
    gate(origin, "/gated.gguf", "right");
    const gated = `${origin.url}/gated.gguf`;
    const downloads = (name: string): number =>
      origin.seen.filter((one) => one.method === "GET" && one.path === name).length;
    const provider = await join(fleet, "provider");
    const right = { secret: "b/token", credentials: { token: "right" } };
    await fetchOn(provider, gated, right);
    const second = await join(fleet, "second");
    fleet.assign("second", { source: gated });
    await fetchOn(second, gated, right);
    expect(second.lines.map(({ message }) => message)).toContain("model file taken from peers");
    expect(downloads("/gated.gguf")).toBe(1);
    const third = await join(fleet, "third");
    fleet.assign("third", { source: gated, sha256: sum });
    const wrong = fetchOn(third, gated, { secret: "a/token", credentials: { token: "wrong" } });
    await expect(wrong).rejects.toMatchObject({ code: "SourceUnauthorized" });
    // A decoy with the checksum, also where the host may have the model itself.
    origin.serve("/decoy.gguf", ggufBytes(content.length, 8));
    fleet.assign("third", { source: `${origin.url}/decoy.gguf`, sha256: sum });
    const decoy = fetchOn(third, `${origin.url}/decoy.gguf`);
    await expect(decoy).rejects.toMatchObject({ code: "ChecksumMismatch" });
    expect(downloads("/gated.gguf")).toBe(2);
    expect(source).not.toBe(gated);
  },
);

test(
  "an unknown client starts no watch of Hosts, and causes only occasional reads of one Host",
  PATIENCE,
  async () => {
    const { fleet } = await begin();
    const provider = await join(fleet, "provider");
    for (let round = 0; round < 5; round += 1)
      for (const stranger of [createPeerIdentity("provider"), createPeerIdentity("nothing"), undefined])
        await expect(ask(provider.port, path, stranger)).rejects.toThrow();
    expect(fleet.watches()).toBe(0);
    expect(fleet.reads).toEqual(["provider"]);
  },
);

test("no Host is read for a certificate whose name no Host can have", PATIENCE, async () => {
  const { fleet } = await begin();
  const provider = await join(fleet, "provider");
  for (const name of ["../secrets", "a/b", "Host", "", "x".repeat(64), "a b"])
    await expect(ask(provider.port, path, createPeerIdentity(name))).rejects.toThrow();
  expect(fleet.reads).toEqual([]);
});

// Elsewhere loopback has one address.
test.skipIf(process.platform !== "linux")(
  "idle connections of unknown clients do not keep hosts out, and few of them stay open",
  PATIENCE,
  async () => {
    const { fleet, source } = await begin();
    const provider = await join(fleet, "provider");
    await fetchOn(provider, source);
    const { identity } = await join(fleet, "member");
    fleet.assign("member", { source });
    const idle: Socket[] = [];
    let open = 0;
    onTestFinished(() => {
      for (const socket of idle) socket.destroy();
    });
    const arrive = async (localAddress: string, isTls: boolean): Promise<void> => {
      const raw = connect({ host: "127.0.0.1", port: provider.port, localAddress });
      idle.push(raw);
      raw.on("error", () => undefined);
      await once(raw, "connect");
      open += 1;
      raw.once("close", () => {
        open -= 1;
      });
      if (isTls) connectTls({ socket: raw, rejectUnauthorized: false }).on("error", () => undefined);
      raw.resume();
    };
    for (let address = 2; address < 12; address += 1)
      for (let count = 0; count < 30; count += 1) await arrive(`127.0.0.${address}`, count % 2 === 0);
    await vi.waitFor(() => expect(open).toBeLessThanOrEqual(PEER_CONNECTION_LIMITS.unproved), {
      timeout: 20_000,
    });
    expect((await ask(provider.port, path, identity, { method: "HEAD" })).status).toBe(200);
    for (let count = 0; count < 60; count += 1) await arrive("127.0.0.99", false);
    await vi.waitFor(() => expect(open).toBeLessThanOrEqual(PEER_CONNECTION_LIMITS.unproved), {
      timeout: 20_000,
    });
    // Who neither shakes hands nor asks is sent away in seconds.
    await vi.waitFor(() => expect(open).toBe(0), { timeout: 20_000, interval: 100 });
  },
);

/** A connection of a host. */
function connectAs({ key, cert }: PeerIdentity, port: number): Socket {
  const socket = connectTls({ host: "127.0.0.1", port, key, cert, rejectUnauthorized: false });
  onTestFinished(() => void socket.destroy());
  return socket.on("error", () => undefined);
}

async function openFiles(): Promise<string[]> {
  const numbers = await readdir("/proc/self/fd");
  return Promise.all(numbers.map((number) => readlink(`/proc/self/fd/${number}`).catch(() => "")));
}

/** As bytes on a connection. */
function chunkRequest(chunk: number): string {
  const start = chunk * CHUNK_BYTES;
  return `GET ${path} HTTP/1.1\r\nhost: peer\r\nrange: bytes=${start}-${start + CHUNK_BYTES - 1}\r\n\r\n`;
}

test(
  "a host that sends a second request before the first one is answered is disconnected",
  PATIENCE,
  async () => {
    const { fleet, source } = await begin();
    let paced = 0;
    const provider = await join(fleet, "provider", {
      pace: (_, signal) => {
        paced += 1;
        return once(signal, "abort").then(() => undefined);
      },
    });
    await fetchOn(provider, source);
    const { identity } = await join(fleet, "member");
    fleet.assign("member", { source });
    const socket = connectAs(identity, provider.port).resume();
    socket.write(chunkRequest(0).repeat(2_000));
    await new Promise((resolve) => socket.once("close", resolve));
    expect(paced).toBeLessThanOrEqual(1);
  },
);

test("sequential requests on one connection are all answered", PATIENCE, async () => {
  const { fleet, source } = await begin();
  const provider = await join(fleet, "provider");
  await fetchOn(provider, source);
  const { identity } = await join(fleet, "member");
  fleet.assign("member", { source });
  const socket = connectAs(identity, provider.port);
  for (const chunk of [0, 1, 2, 3, 4, 0, 4, 4, 4]) {
    const body = content.subarray(chunk * CHUNK_BYTES, (chunk + 1) * CHUNK_BYTES);
    const pieces: Buffer[] = [];
    socket.write(chunkRequest(chunk));
    for (let bytes = 0; bytes < body.length; ) {
      const piece: Buffer | null = socket.read();
      if (piece === null) {
        await once(socket, "readable");
        continue;
      }
      bytes += piece.length - (bytes === 0 && pieces.length === 0 ? piece.indexOf("\r\n\r\n") + 4 : 0);
      pieces.push(piece);
    }
    expect(Buffer.concat(pieces).subarray(-body.length).equals(body)).toBe(true);
  }
});

test(
  "one host receives at most four chunks at once, and does not delay requests of others",
  PATIENCE,
  async () => {
    const { fleet, source } = await begin();
    const waiting: (() => void)[] = [];
    const provider = await join(fleet, "provider", {
      pace: () => new Promise((resolve) => waiting.push(resolve)),
    });
    await fetchOn(provider, source);
    const greedy = await join(fleet, "greedy");
    const member = await join(fleet, "member");
    for (const name of ["greedy", "member"]) fleet.assign(name, { source });
    for (let count = 0; count < 12; count += 1)
      connectAs(greedy.identity, provider.port).write(chunkRequest(0));
    await vi.waitFor(() => expect(waiting.length).toBeGreaterThanOrEqual(4), { timeout: 20_000 });
    expect((await ask(provider.port, path, greedy.identity, { method: "HEAD" })).status).toBe(200);
    connectAs(member.identity, provider.port).write(chunkRequest(0));
    await vi.waitFor(() => expect(waiting.length).toBeGreaterThanOrEqual(5), { timeout: 20_000 });
    expect(waiting).toHaveLength(5);
    // Without bandwidth no file is open.
    const blob = await realpath(`${provider.dir}/blobs/sha256/${sum}`);
    expect(process.platform === "linux" ? await openFiles() : []).not.toContain(blob);
  },
);

test("a host that does not read the requested chunk is disconnected", PATIENCE, async () => {
  const { fleet, source } = await begin();
  let answered = Promise.withResolvers<void>();
  const provider = await join(fleet, "provider", {
    serverStallMs: 200,
    pace: (_, signal) => {
      signal.addEventListener("abort", () => answered.resolve(), { once: true });
      return undefined;
    },
  });
  await fetchOn(provider, source);
  const { identity } = await join(fleet, "member");
  fleet.assign("member", { source });
  const gone = disconnection(provider.port);
  const socket = connectAs(identity, provider.port);
  let isGone = false;
  // As many chunks as the system's buffers hold are answered all the same.
  while (!isGone) {
    answered = Promise.withResolvers();
    socket.write(chunkRequest(0));
    isGone = await Promise.race([answered.promise.then(() => false), gone.then(() => true)]);
  }
  expect(socket.destroyed).toBe(false);
});
