/**
 * Downloads a file in a child process, in one of four modes: a `raw` TLS stream; one that is hashed and `stored`; the agent's
 * store from a `peer`; a peer's `chunks`, discarded. Prints time and memory.
 */
import { createHash } from "node:crypto";
import { once } from "node:events";
import { createWriteStream } from "node:fs";
import { pipeline } from "node:stream/promises";
import { connect } from "node:tls";
import pino from "pino";
import { createPeerClient } from "../../../agent/peers/client.ts";
import { createDirectory } from "../../../agent/peers/directory.ts";
import { addressDigest } from "../../../agent/peers/grants.ts";
import { createPeerFetcher } from "../../../agent/peers/peer-fetcher.ts";
import { CHUNK_BYTES } from "../../../agent/store/content/prefix-hash.ts";
import { openStore } from "../../../agent/store/store.ts";
import { systemClock } from "../../../src/kube/system-clock.ts";
import type { PeerOffer } from "./peer-server.ts";

/** Parallel requests per peer, as in the agent. */
const LANES = 2;
const [how = "", dir = "", offered = ""] = process.argv.slice(2);
const { serverHost, clientIdentity, source, sha256, sizeBytes, rawPort } = JSON.parse(offered) as PeerOffer;
const clock = systemClock;
const log = pino({ level: "silent" });
const { signal } = new AbortController();
const before = process.memoryUsage.rss();
let peak = before;
const watching = setInterval(() => {
  peak = Math.max(peak, process.memoryUsage.rss());
}, 20);
const startedAt = performance.now();
if (how === "raw") await readRaw();
else if (how === "stored") await storeRaw();
else if (how === "chunks") await readChunks();
else await takeFromPeer();
const ms = performance.now() - startedAt;
clearInterval(watching);
// Written before it exits: the directory would keep the process for a minute.
process.stdout.write(JSON.stringify({ ms, growthBytes: peak - before }), () => process.exit(0));

async function readRaw(): Promise<void> {
  const socket = connect({ host: "127.0.0.1", port: rawPort, rejectUnauthorized: false });
  socket.resume();
  await once(socket, "end");
  socket.destroy();
}

async function storeRaw(): Promise<void> {
  const socket = connect({ host: "127.0.0.1", port: rawPort, rejectUnauthorized: false });
  const hash = createHash("sha256");
  const file = createWriteStream(dir, { flush: true });
  await pipeline(
    socket,
    async function* (pieces: AsyncIterable<Buffer>) {
      for await (const piece of pieces) {
        hash.update(piece);
        yield piece;
      }
    },
    file,
  );
  if (hash.digest("hex") !== sha256) throw new Error("the stream was not the file");
}

async function readChunks(): Promise<void> {
  const { port = 0, fingerprint = "" } = serverHost.status?.peer ?? {};
  const peer = { name: "server", host: serverHost, address: "127.0.0.1", port, fingerprint };
  const client = createPeerClient({ identity: clientIdentity, peer, connectMs: 5_000, stallMs: 15_000 });
  const content = { sha256, totalBytes: sizeBytes, address: addressDigest(source) };
  const lane = async (first: number): Promise<void> => {
    const into = Buffer.allocUnsafeSlow(CHUNK_BYTES);
    for (let chunk = first; chunk * CHUNK_BYTES < sizeBytes; chunk += LANES) {
      const response = await client.chunk(content, chunk, into, signal);
      if (response.at === "later") throw new Error("the server does not have it");
    }
  };
  await Promise.all(Array.from({ length: LANES }, (_, first) => lane(first)));
}

/** The source reports the file as present: all bytes come from the peer. */
async function takeFromPeer(): Promise<void> {
  const directory = createDirectory("client", clock, signal);
  directory.connect({
    watch: ({ onChange, onSynced }) => {
      onChange("server", serverHost);
      onSynced();
    },
    readHost: async () => serverHost,
    readAssigned: async () => [],
  });
  const peers = createPeerFetcher({ self: "client", identity: clientIdentity, directory, clock, log });
  const store = await openStore({
    dir,
    clock,
    log,
    peers,
    allowedRoots: [],
    reserveBytes: 0,
    hfEndpoint: "http://127.0.0.1",
    allowLoopback: true,
  });
  await store.fetch({ source, sha256 }, { signal });
}
