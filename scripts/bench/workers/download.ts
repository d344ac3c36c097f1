/** One fetch by the agent's own store in a process of its own: prints the time and how much memory it grew by. */
import pino from "pino";
import { openStore } from "../../../agent/store/store.ts";
import { systemClock } from "../../../src/kube/system-clock.ts";

const [source = "", dir = ""] = process.argv.slice(2);
const store = await openStore({
  ...{ dir, clock: systemClock, log: pino({ level: "silent" }), allowedRoots: [], reserveBytes: 0 },
  hfEndpoint: "http://127.0.0.1",
  allowLoopback: true,
});
const before = process.memoryUsage.rss();
let peak = before;
const watching = setInterval(() => {
  peak = Math.max(peak, process.memoryUsage.rss());
}, 20);
const startedAt = performance.now();
await store.fetch({ source }, { signal: new AbortController().signal });
const ms = performance.now() - startedAt;
clearInterval(watching);
console.log(JSON.stringify({ ms, growthBytes: peak - before }));
