/** One malicious or slow host delays the others only briefly, and does not prevent downloads from the source. */
import { readFile } from "node:fs/promises";
import type { ServerResponse } from "node:http";
import fc from "fast-check";
import { expect, onTestFinished, test } from "vitest";
import { ggufBytes, type Origin, sendFile, sha256, startOrigin } from "../../test/fixtures/origin.ts";
import { CHUNK_BYTES } from "../store/content/prefix-hash.ts";
import { fetchOptions } from "../store/fixtures/store.ts";
import { startHostile } from "./fixtures/hostile.ts";
import {
  createPeerFleet,
  hostOf,
  type Member,
  type MemberOptions,
  type PeerFleet,
} from "./fixtures/peer-fleet.ts";
import { createPeerIdentity } from "./identity.ts";

const PATIENCE = { timeout: 120_000 };
const content = ggufBytes(4 * CHUNK_BYTES + 12_345, 7);
const sum = sha256(content);
const impatient = { chunkMs: 20, reserveMs: 200, sampleBytes: 1 << 20, sampleMs: 20_000 };

async function begin(): Promise<{ fleet: PeerFleet; origin: Origin; source: string }> {
  const origin = await startOrigin();
  onTestFinished(() => origin[Symbol.asyncDispose]());
  origin.serve("/model.gguf", content);
  return { fleet: createPeerFleet(), origin, source: `${origin.url}/model.gguf` };
}

async function join(fleet: PeerFleet, name: string, options?: MemberOptions): Promise<Member> {
  const member = await fleet.add(name, options);
  onTestFinished(() => member[Symbol.asyncDispose]());
  return member;
}

async function fetchOn(member: Member, source: string, stated = sum): Promise<Buffer> {
  member.fleet.assign(member.name, { source });
  const model = await member.store.fetch({ source, sha256: stated }, fetchOptions());
  await member.report();
  return readFile(model.path);
}

const downloads = ({ seen }: Origin): number => seen.filter(({ method }) => method === "GET").length;
const dropped = ({ lines }: Member): unknown[] =>
  lines.filter(({ message }) => message === "peer dropped for this file").map(({ data }) => data.why);

/** A chunk as an honest peer would begin to send it. */
function promise(response: ServerResponse, start: number, totalBytes = content.length): number {
  const end = Math.min(start + CHUNK_BYTES, totalBytes);
  response.writeHead(206, {
    "content-length": end - start,
    "content-range": `bytes ${start}-${end - 1}/${totalBytes}`,
    "metalbridge-prefix-sha256": sum,
  });
  return end;
}

const startOf = (range: string | undefined): number => Number(/^bytes=(\d+)-/.exec(range ?? "")?.[1]);

/** Keeps the connection busy forever. */
function drip(response: ServerResponse, byte: Uint8Array = Buffer.from([0])): void {
  const timer = setInterval(() => response.write(byte), 10);
  response.on("close", () => clearInterval(timer));
}

test(
  "a peer that sends very slowly is suspended for all files, and the source serves the missing bytes",
  PATIENCE,
  async () => {
    const { fleet, origin, source } = await begin();
    const other = ggufBytes(4 * CHUNK_BYTES, 9);
    origin.serve("/other.gguf", other);
    await using hostile = await startHostile(fleet, "hostile", [sum, sha256(other)], (request, response) => {
      promise(response, startOf(request.headers.range));
      drip(response);
    });
    const fetcher = await join(fleet, "fetcher", { limits: impatient });
    expect((await fetchOn(fetcher, source)).equals(content)).toBe(true);
    expect(dropped(fetcher)).toEqual(["it is slower than the source"]);
    const asked = hostile.asked();
    expect((await fetchOn(fetcher, `${origin.url}/other.gguf`, sha256(other))).equals(other)).toBe(true);
    expect(hostile.asked()).toBe(asked);
  },
);

test("a peer that only ever promises a little more is dropped", PATIENCE, async () => {
  const { fleet, source } = await begin();
  let available = 0;
  await using hostile = await startHostile(fleet, "hostile", [sum], (_, response) => {
    available += 1;
    response.writeHead(503, { "metalbridge-available": available, "content-length": 0 }).end();
  });
  const fetcher = await join(fleet, "fetcher", { limits: impatient });
  expect((await fetchOn(fetcher, source)).equals(content)).toBe(true);
  expect(dropped(fetcher)).toEqual(["it is slower than the source"]);
  expect(hostile.asked()).toBeGreaterThan(1);
});

test(
  "a download from the source continues after a peer that only claims to have the file",
  PATIENCE,
  async () => {
    const { fleet, origin, source } = await begin();
    const isOpen = Promise.withResolvers<void>();
    const isBegun = Promise.withResolvers<void>();
    origin.on("/model.gguf", async (request, response) => {
      if (request.method === "HEAD" || request.headers.range !== undefined)
        return sendFile(request, response, content);
      response.writeHead(200, { etag: `"${sum.slice(0, 16)}"`, "content-length": content.length });
      response.write(content.subarray(0, 2 * CHUNK_BYTES), () => isBegun.resolve());
      await isOpen.promise;
      response.destroy();
    });
    onTestFinished(() => isOpen.resolve());
    const fetcher = await join(fleet, "fetcher", { limits: impatient });
    const fetched = fetchOn(fetcher, source);
    await isBegun.promise;
    await using _ = await startHostile(fleet, "hostile", [sum], (request, response) => {
      promise(response, startOf(request.headers.range));
      drip(response);
    });
    expect((await fetched).equals(content)).toBe(true);
    expect(dropped(fetcher)).toEqual(["it is slower than the source"]);
  },
);

test(
  "a peer that offers a content, does not answer and withdraws the offer interrupts a download from the source only once",
  PATIENCE,
  async () => {
    const { fleet, origin, source } = await begin();
    await using hostile = await startHostile(fleet, "hostile", [], () => hostile.offer([]));
    origin.on("/model.gguf", (request, response) => {
      if (request.method === "GET") hostile.offer([sum]);
      sendFile(request, response, content);
    });
    const fetcher = await join(fleet, "fetcher");
    expect((await fetchOn(fetcher, source)).equals(content)).toBe(true);
    expect(dropped(fetcher)).toEqual(["it stopped a download from the source and served nothing"]);
    expect(downloads(origin)).toBe(2);
  },
);

test("a peer that is as slow as the source is not dropped", PATIENCE, async () => {
  const { fleet, origin, source } = await begin();
  const provider = await join(fleet, "provider", {
    // Half a chunk's patience for each block.
    pace: (_, signal) =>
      new Promise((resolve) => {
        setTimeout(resolve, 20);
        signal.addEventListener("abort", () => resolve(), { once: true });
      }),
  });
  await fetchOn(provider, source);
  origin.on("/model.gguf", (request, response) => {
    if (request.method === "HEAD") return sendFile(request, response, content);
    response.writeHead(200, { "content-length": content.length });
    drip(response, content.subarray(0, 100));
  });
  const limits = { chunkMs: 1, reserveMs: 1, sampleBytes: content.length, sampleMs: 300 };
  const fetcher = await join(fleet, "fetcher", { limits });
  expect((await fetchOn(fetcher, source)).equals(content)).toBe(true);
  expect(dropped(fetcher)).toEqual([]);
  // It was compared.
  expect(downloads(origin)).toBeGreaterThan(1);
});

test(
  "a source that fails during the comparison with slow peers does not end the download",
  PATIENCE,
  async () => {
    const { fleet, origin, source } = await begin();
    const provider = await join(fleet, "provider", {
      pace: () => new Promise((resolve) => setTimeout(resolve, 20)),
    });
    await fetchOn(provider, source);
    origin.on("/model.gguf", (request, response) => {
      if (request.method === "HEAD") return sendFile(request, response, content);
      response.writeHead(503).end();
    });
    const fetcher = await join(fleet, "fetcher", { limits: { ...impatient, chunkMs: 1, reserveMs: 1 } });
    expect((await fetchOn(fetcher, source)).equals(content)).toBe(true);
    expect(dropped(fetcher)).toEqual([]);
  },
);

test.each([
  ["1e14 bytes", 1e14],
  ["80 MiB", 80 << 20],
])("a peer that claims %s neither evicts stored models nor fills the disk", PATIENCE, async (_, claimed) => {
  const { fleet, origin, source } = await begin();
  const unused = ggufBytes(CHUNK_BYTES, 3);
  origin.serve("/unused.gguf", unused);
  await using hostile = await startHostile(fleet, "hostile", [sum], (request, response) => {
    promise(response, startOf(request.headers.range), claimed);
    drip(response);
  });
  const quotaBytes = content.length + 2 * CHUNK_BYTES;
  const fetcher = await join(fleet, "fetcher", { limits: impatient, store: { quotaBytes } });
  await fetcher.store.fetch({ source: `${origin.url}/unused.gguf` }, fetchOptions());
  expect((await fetchOn(fetcher, source)).equals(content)).toBe(true);
  expect(await fetcher.store.list()).toHaveLength(2);
  expect(dropped(fetcher)).toEqual(["the peer has a content of another size"]);
  expect(hostile.asked()).toBeGreaterThan(0);
});

test("the file equals the source's within the time limits, for any answer of a peer", PATIENCE, async () => {
  const header = fc.oneof(
    fc.string({ maxLength: 40, unit: fc.constantFrom(..."bytes0123456789-/* ") }),
    fc.constantFrom("bytes 0-4194303/4194304", `bytes 0-4194303/${content.length}`, "bytes 0-0/1"),
  );
  const answers = fc.record({
    status: fc.constantFrom(200, 206, 204, 302, 404, 416, 500, 503),
    range: header,
    available: header,
    length: fc.option(fc.integer({ min: 0, max: 2 * CHUNK_BYTES }), { nil: undefined }),
    body: fc.uint8Array({ maxLength: 64 }),
    end: fc.constantFrom("end", "destroy", "drip"),
  });
  const { fleet, source } = await begin();
  await fc.assert(
    fc.asyncProperty(answers, async ({ status, range, available, length, body, end }) => {
      await using _ = await startHostile(fleet, "hostile", [sum], (_, response) => {
        response.writeHead(status, {
          "content-range": range,
          "metalbridge-available": available,
          "metalbridge-prefix-sha256": sum,
          ...(length === undefined ? {} : { "content-length": length }),
        });
        if (status !== 204) response.write(body);
        if (end === "drip") drip(response);
        else if (end === "destroy") response.destroy();
        else response.end();
      });
      await using fetcher = await fleet.add("fetcher", { limits: impatient });
      expect((await fetchOn(fetcher, source)).equals(content)).toBe(true);
      expect(dropped(fetcher)).toHaveLength(1);
      fleet.remove("fetcher");
    }),
    { numRuns: 12 },
  );
});

test("the agent does not connect to an address that the operator does not allow for a host", async () => {
  const fleet = createPeerFleet();
  const fetcher = await join(fleet, "fetcher");
  const done = fetcher.directory.use();
  onTestFinished(done);
  const { fingerprint } = createPeerIdentity("other");
  const portOf = (...addresses: string[]): string[] => {
    const { status, ...host } = hostOf("other", 4_000, fingerprint);
    const spec = { ...host.spec, addresses: ["10.1.0.0/16", "10.2.0.7"] };
    fleet.publish({ ...host, spec, status: { ...status, addresses } });
    return fetcher.directory.peers().map(({ address, port }) => `${address}:${port}`);
  };
  expect(portOf("10.1.2.3")).toEqual(["10.1.2.3:4000"]);
  expect(portOf("evil.example", "10.2.0.7")).toEqual(["10.2.0.7:4000"]);
  for (const address of [
    "10.2.0.8",
    "evil.example",
    "localhost",
    "127.0.0.1",
    "169.254.169.254",
    "::ffff:10.1.2.3",
  ])
    expect([address, portOf(address)]).toEqual([address, [":0"]]);
});
