/** A host downloads weights from others over real TLS, verifies each chunk, and uses the origin when peers fail. */
import { chmod, type FileHandle, open, readFile } from "node:fs/promises";
import { join as joinPath } from "node:path";
import { expect, onTestFinished, test, vi } from "vitest";
import { ggufBytes, type Origin, sendFile, sha256, startOrigin } from "../../test/fixtures/origin.ts";
import { CHUNK_BYTES, PrefixHash } from "../store/content/prefix-hash.ts";
import { fetchOptions, patientLimits } from "../store/fixtures/store.ts";
import {
  createPeerFleet,
  hostOf,
  type Member,
  type MemberOptions,
  type PeerFleet,
} from "./fixtures/peer-fleet.ts";
import { createPeerIdentity } from "./identity.ts";

const PATIENCE = { timeout: 180_000 };
/** Five chunks, the last one short. */
const content = ggufBytes(4 * CHUNK_BYTES + 12_345, 7);
const sum = sha256(content);
const updateIfBefore = PrefixHash.prototype.updateIf;

async function begin(): Promise<{ fleet: PeerFleet; origin: Origin; source: string; bytes: () => number }> {
  const origin = await startOrigin();
  onTestFinished(() => origin[Symbol.asyncDispose]());
  origin.serve("/model.gguf", content);
  const bytes = (): number => origin.seen.filter(({ method }) => method === "GET").length;
  return { fleet: createPeerFleet(), origin, source: `${origin.url}/model.gguf`, bytes };
}

async function join(fleet: PeerFleet, name: string, options?: MemberOptions): Promise<Member> {
  const member = await fleet.add(name, options);
  onTestFinished(() => member[Symbol.asyncDispose]());
  return member;
}

async function fetchOn(member: Member, source: string): Promise<Buffer> {
  member.fleet.assign(member.name, { source, sha256: sum });
  const model = await member.store.fetch({ source, sha256: sum }, fetchOptions());
  await member.report();
  return readFile(model.path);
}

function dropped(member: Member): unknown[] {
  const lines = member.lines.filter(({ message }) => message === "peer dropped for this file");
  return lines.map(({ data }) => data.why);
}

/** Changes one byte of the stored content. */
async function corrupt(member: Member, position: number): Promise<void> {
  const path = joinPath(member.dir, "blobs", "sha256", sum);
  await chmod(path, 0o600);
  const file = await open(path, "r+");
  await file.write(Buffer.from([(content[position] ?? 0) ^ 0xff]), 0, 1, position);
  await file.close();
}

test(
  "a host downloads from a peer that has the content, and the origin serves no second copy",
  PATIENCE,
  async () => {
    const { fleet, source, bytes } = await begin();
    const first = await join(fleet, "first");
    const second = await join(fleet, "second");
    expect((await fetchOn(first, source)).equals(content)).toBe(true);
    expect(bytes()).toBe(1);
    expect((await fetchOn(second, source)).equals(content)).toBe(true);
    expect(bytes()).toBe(1);
    expect(second.lines).toContainEqual(
      expect.objectContaining({
        message: "model file taken from peers",
        data: expect.objectContaining({ peers: ["first"] }),
      }),
    );
    // And what was taken can be given.
    const third = await join(fleet, "third");
    first.leave();
    fleet.remove("first");
    expect((await fetchOn(third, source)).equals(content)).toBe(true);
    expect(bytes()).toBe(1);
  },
);

test("chunks are written in order, so that an aborted part has no hole", PATIENCE, async () => {
  const { fleet, source } = await begin();
  await fetchOn(await join(fleet, "first"), source);
  const second = await join(fleet, "second");
  const handle = await open(joinPath(second.dir, "probe"), "w");
  const files = Object.getPrototypeOf(handle) as FileHandle;
  await handle.close();
  const write = files.write;
  const begun: number[] = [];
  const isNextVerified = Promise.withResolvers<void>();
  const updateIf = vi.spyOn(PrefixHash.prototype, "updateIf").mockImplementation(function (
    this: PrefixHash,
    ...chunk
  ) {
    const isRight = updateIfBefore.apply(this, chunk);
    // A write that did not wait has begun by then.
    if (updateIf.mock.calls.length === 3) setImmediate(isNextVerified.resolve);
    return isRight;
  });
  const held = vi.spyOn(files, "write").mockImplementation(async function (
    this: FileHandle,
    ...args: unknown[]
  ) {
    const [, , , position] = args;
    if (typeof position === "number") begun.push(position);
    if (position === CHUNK_BYTES) {
      await isNextVerified.promise;
      expect(begun).toEqual([0, CHUNK_BYTES]);
    }
    return Reflect.apply(write, this, args);
  } as typeof write);
  onTestFinished(() => {
    updateIf.mockRestore();
    held.mockRestore();
  });
  expect((await fetchOn(second, source)).equals(content)).toBe(true);
  expect(begun).toEqual([0, 1, 2, 3, 4].map((chunk) => chunk * CHUNK_BYTES));
});

test(
  "a chunk that could not be written ends the peer download, and no peer is dropped for it",
  PATIENCE,
  async () => {
    const { fleet, source, bytes } = await begin();
    const first = await join(fleet, "first");
    await fetchOn(first, source);
    const second = await join(fleet, "second");
    const handle = await open(joinPath(second.dir, "probe"), "w");
    const files = Object.getPrototypeOf(handle) as FileHandle;
    await handle.close();
    const write = files.write;
    const isNextVerified = Promise.withResolvers<void>();
    const updateIf = vi.spyOn(PrefixHash.prototype, "updateIf").mockImplementation(function (
      this: PrefixHash,
      ...chunk
    ) {
      if (updateIf.mock.calls.length === 3) isNextVerified.resolve();
      return updateIfBefore.apply(this, chunk);
    });
    const failing = vi.spyOn(files, "write").mockImplementation(async function (
      this: FileHandle,
      ...args: unknown[]
    ) {
      if (args[3] !== CHUNK_BYTES) return Reflect.apply(write, this, args);
      failing.mockRestore();
      await isNextVerified.promise;
      // The round ends while the chunk is being written: another host has the content too.
      const offers = [{ sha256: sum, since: "2026-01-01T00:00:00Z", complete: true }];
      fleet.publish(hostOf("other", first.port, first.identity.fingerprint, { offers }));
      throw Object.assign(new Error("EIO: i/o error, write"), { code: "EIO" });
    } as typeof write);
    onTestFinished(() => {
      updateIf.mockRestore();
      failing.mockRestore();
    });
    fleet.assign("second", { source });
    const fetched = second.store.fetch({ source, sha256: sum }, fetchOptions());
    await expect(fetched).rejects.toThrow(/EIO/);
    expect(dropped(second)).toEqual([]);
    fleet.remove("other");
    expect((await fetchOn(second, source)).equals(content)).toBe(true);
    expect(bytes()).toBe(1);
  },
);

test("several peers serve parts of one file at the same time", PATIENCE, async () => {
  const { fleet, source } = await begin();
  const given = new Map<string, number>();
  const count = (name: string): MemberOptions => ({
    pace: async (bytes) => void given.set(name, (given.get(name) ?? 0) + bytes),
  });
  for (const name of ["a", "b", "c"]) await fetchOn(await join(fleet, name, count(name)), source);
  given.clear();
  await fetchOn(await join(fleet, "fetcher"), source);
  expect([...given.keys()].sort()).toEqual(["a", "b", "c"]);
});

test("hosts that start together download one copy from the origin", PATIENCE, async () => {
  const { fleet, origin, source } = await begin();
  let sent = 0;
  let isOpen = 0;
  const gate = Promise.withResolvers<void>();
  origin.on("/model.gguf", async (incoming, response) => {
    if (incoming.method === "HEAD") return sendFile(incoming, response, content);
    isOpen += 1;
    response.once("close", () => {
      isOpen -= 1;
    });
    const start = Number(/^bytes=(\d+)-/.exec(incoming.headers.range ?? "")?.[1] ?? 0);
    response.writeHead(start === 0 ? 200 : 206, {
      etag: '"x"',
      "content-length": content.length - start,
      ...(start === 0 ? {} : { "content-range": `bytes ${start}-${content.length - 1}/${content.length}` }),
    });
    response.write(content.subarray(start, start + 1000));
    await gate.promise;
    response.once("finish", () => {
      sent += content.length - start;
    });
    if (response.destroyed) return;
    response.end(content.subarray(start + 1000));
  });
  const members: Member[] = [];
  // None of them may give up before the gate opens.
  const store = { limits: { ...patientLimits, stallMs: 60_000 } };
  const patient: MemberOptions = { waitMs: 30_000, limits: { stallMs: 60_000 }, store };
  for (const name of ["a", "b", "c", "d"]) members.push(await join(fleet, name, patient));
  const fetched = members.map((member) => fetchOn(member, source));
  // All but the first have left the origin.
  await vi.waitFor(
    () => {
      expect(members.flatMap(({ store }) => store.contents.offers())).toHaveLength(4);
      expect(isOpen).toBe(1);
    },
    { timeout: 50_000 },
  );
  gate.resolve();
  for (const bytes of await Promise.all(fetched)) expect(bytes.equals(content)).toBe(true);
  await vi.waitFor(() => expect(sent).toBe(content.length), { timeout: 50_000 });
});

test("a peer that sends wrong bytes is dropped, and the others continue", PATIENCE, async () => {
  const { fleet, source, bytes } = await begin();
  const bad = await join(fleet, "bad");
  const good = await join(fleet, "good");
  await fetchOn(bad, source);
  await fetchOn(good, source);
  await corrupt(bad, CHUNK_BYTES + 5);
  const before = bytes();
  const fetcher = await join(fleet, "fetcher");
  expect((await fetchOn(fetcher, source)).equals(content)).toBe(true);
  expect(bytes()).toBe(before);
});

test(
  "a single peer that sends wrong bytes is dropped, and the origin serves the missing bytes",
  PATIENCE,
  async () => {
    const { fleet, source, bytes } = await begin();
    const bad = await join(fleet, "bad");
    await fetchOn(bad, source);
    await corrupt(bad, 2 * CHUNK_BYTES + 5);
    const before = bytes();
    const fetcher = await join(fleet, "fetcher");
    expect((await fetchOn(fetcher, source)).equals(content)).toBe(true);
    expect(bytes()).toBe(before + 1);
    expect(dropped(fetcher)).toEqual(["the peer sent wrong bytes"]);
  },
);

test(
  "a peer that stops during a download is dropped, and the origin serves the missing bytes",
  PATIENCE,
  async () => {
    const { fleet, source, bytes } = await begin();
    let blocks = 0;
    const leaver: Member = await join(fleet, "leaver", {
      pace: async () => {
        blocks += 1;
        if (blocks === 20) leaver.leave();
      },
    });
    await fetchOn(leaver, source);
    const before = bytes();
    const fetcher = await join(fleet, "fetcher");
    expect((await fetchOn(fetcher, source)).equals(content)).toBe(true);
    expect(bytes()).toBe(before + 1);
    expect(dropped(fetcher)).toHaveLength(1);
  },
);

test("a peer that stalls is dropped, and the origin serves the missing bytes", PATIENCE, async () => {
  const { fleet, source, bytes } = await begin();
  let blocks = 0;
  const over = Promise.withResolvers<void>();
  onTestFinished(() => over.resolve());
  const staller = await join(fleet, "staller", {
    pace: async () => {
      blocks += 1;
      if (blocks > 20) await over.promise;
    },
  });
  await fetchOn(staller, source);
  const before = bytes();
  const fetcher = await join(fleet, "fetcher", { limits: { stallMs: 300 } });
  expect((await fetchOn(fetcher, source)).equals(content)).toBe(true);
  expect(bytes()).toBe(before + 1);
  expect(dropped(fetcher)).toEqual(["no byte in time"]);
});

test(
  "a peer that lacks the content it offers, and one that does not listen, do not fail the download",
  PATIENCE,
  async () => {
    const { fleet, source, bytes } = await begin();
    const liar = await join(fleet, "liar");
    const offers = [{ sha256: sum, since: "2026-01-01T00:00:00Z", complete: true }];
    fleet.publish(hostOf("liar", liar.port, liar.identity.fingerprint, { offers }));
    fleet.publish(hostOf("gone", 1, createPeerIdentity("gone").fingerprint, { offers }));
    const fetcher = await join(fleet, "fetcher");
    expect((await fetchOn(fetcher, source)).equals(content)).toBe(true);
    expect(bytes()).toBe(1);
    expect(dropped(fetcher)).toContain("the peer answered 404");
  },
);

test("a predecessor whose download does not advance is dropped", PATIENCE, async () => {
  const { fleet, origin, source } = await begin();
  const asked = Promise.withResolvers<void>();
  origin.on("/never.gguf", () => asked.resolve());
  const stuck = await join(fleet, "stuck", { waitMs: 10 });
  const stop = new AbortController();
  const never = stuck.store.fetch(
    { source: `${origin.url}/never.gguf`, sha256: sum },
    fetchOptions({ signal: stop.signal }),
  );
  const ended = expect(never).rejects.toThrow();
  await asked.promise;
  await stuck.report();
  const fetcher = await join(fleet, "fetcher");
  expect((await fetchOn(fetcher, source)).equals(content)).toBe(true);
  expect(dropped(fetcher)).toEqual(["its download does not advance"]);
  stop.abort();
  await ended;
});

test("no request is sent to another machine at the address of a peer", PATIENCE, async () => {
  const { fleet, source } = await begin();
  const peer = await join(fleet, "peer");
  await fetchOn(peer, source);
  const fetcher = await join(fleet, "fetcher");
  fleet.publish(
    hostOf("peer", peer.port, createPeerIdentity("peer").fingerprint, {
      models: [...(await peer.store.list())],
    }),
  );
  expect((await fetchOn(fetcher, source)).equals(content)).toBe(true);
  expect(dropped(fetcher)).toEqual(["another certificate than its Host's"]);
});
