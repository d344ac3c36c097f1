/** A host that has one file of noise, and gives it: as a peer, and as a raw TLS stream. Prints a PeerOffer. Ends with its standard input. */
import { once } from "node:events";
import { createReadStream } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { createServer as createTlsServer } from "node:tls";
import pino from "pino";
import { createDirectory } from "../../../agent/peers/directory.ts";
import { createPeerIdentity, type PeerIdentity } from "../../../agent/peers/identity.ts";
import { startPeerServer } from "../../../agent/peers/peer-server.ts";
import { createRateLimiter } from "../../../agent/store/download/host-limits.ts";
import { openStore } from "../../../agent/store/store.ts";
import { type Host, hostSchema } from "../../../src/api/host.ts";
import { systemClock } from "../../../src/kube/system-clock.ts";

export interface PeerOffer {
  readonly source: string;
  readonly sha256: string;
  readonly sizeBytes: number;
  readonly serverHost: Host;
  /** Identity of the process that downloads. */
  readonly clientIdentity: PeerIdentity;
  readonly rawPort: number;
}

const [dir = "", size = "", maxRate] = process.argv.slice(2);
const sizeBytes = Number(size);
const clock = systemClock;
const log = pino({ level: "silent" });
const { signal } = new AbortController();
const address = "127.0.0.1";

const store = await openStore({
  dir,
  clock,
  log,
  allowedRoots: [],
  reserveBytes: 0,
  hfEndpoint: "http://127.0.0.1",
  allowLoopback: true,
});
const { source, path, sha256 = "" } = await fetchNoise();
const identity = createPeerIdentity("server");
const clientIdentity = createPeerIdentity("client");
const directory = createDirectory("server", clock, signal);
directory.connect({
  watch: ({ onChange, onSynced }) => {
    onChange("client", hostOf("client", { fingerprint: clientIdentity.fingerprint }));
    onSynced();
  },
  readHost: async () => hostOf("client", { fingerprint: clientIdentity.fingerprint }),
  readAssigned: async () => [{ source, sha256 }],
});
const pace = maxRate === undefined ? () => undefined : createRateLimiter(Number(maxRate), clock);
const port = await startPeerServer({
  identity,
  directory,
  pace,
  clock,
  log,
  signal,
  address,
  port: 0,
  contents: store.contents,
});
const raw = createTlsServer({ key: identity.key, cert: identity.cert, minVersion: "TLSv1.3" }, (socket) => {
  socket.on("error", () => undefined);
  createReadStream(path, { highWaterMark: 512 << 10 }).pipe(socket);
});
raw.listen(0, address);
await once(raw, "listening");
const serverHost = hostOf("server", { fingerprint: identity.fingerprint, port });
const offer: PeerOffer = {
  source,
  sha256,
  sizeBytes,
  serverHost,
  clientIdentity,
  rawPort: (raw.address() as AddressInfo).port,
};
console.log(JSON.stringify(offer));
process.stdin.on("end", () => process.exit(0)).resume();

function hostOf(name: string, peer: object): Host {
  const models = sha256 === "" ? [] : [{ source: "bench", sha256 }];
  return hostSchema.parse({
    metadata: { name },
    spec: { addresses: [address] },
    status: { addresses: [address], peer, models },
  });
}

async function fetchNoise() {
  const block = Buffer.alloc(1 << 20, "metalbridge");
  block.write("GGUF", 0, "latin1");
  const origin = createServer(async ({ method }, response) => {
    response.writeHead(200, { "content-length": sizeBytes, etag: '"noise"' });
    if (method === "HEAD") return void response.end();
    for (let left = sizeBytes; left > 0; left -= block.length)
      if (!response.write(block.subarray(0, left))) await once(response, "drain");
    response.end();
  }).listen(0, address);
  await once(origin, "listening");
  const source = `http://${address}:${(origin.address() as AddressInfo).port}/noise.gguf`;
  const model = await store.fetch({ source }, { signal });
  return { ...model, source };
}
