/** Takes a file in a process of its own, as `raw` TLS stream or by the agent's store from a `peer`: prints time and memory. */
import { once } from "node:events";
import { connect } from "node:tls";
import pino from "pino";
import { createDirectory } from "../../../agent/peers/directory.ts";
import { createTaker } from "../../../agent/peers/taker.ts";
import { openStore } from "../../../agent/store/store.ts";
import { systemClock } from "../../../src/kube/system-clock.ts";
import type { PeerOffer } from "./peer-giver.ts";

const [how = "", dir = "", offered = ""] = process.argv.slice(2);
const { giver, taker, sha256, rawPort } = JSON.parse(offered) as PeerOffer;
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

/** Nothing listens at the source: every byte is a peer's. */
async function takeFromPeer(): Promise<void> {
  const directory = createDirectory("taker", clock, signal);
  directory.connect(({ onChange, onSynced }) => {
    onChange("giver", giver);
    onSynced();
  });
  const peers = createTaker({ self: "taker", identity: taker, directory, clock, log });
  const store = await openStore({
    ...{ dir, clock, log, peers, allowedRoots: [], reserveBytes: 0, hfEndpoint: "http://127.0.0.1" },
    allowLoopback: true,
  });
  await store.fetch({ source: "http://127.0.0.1:1/noise.gguf", sha256 }, { signal });
}
