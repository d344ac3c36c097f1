/** Fetches by the agent's own store in a process of its own: prints the time, and how much memory they added at most. */
import pino from "pino";
import { openStore } from "../../../agent/store/store.ts";
import type { ModelRequest } from "../../../agent/store/types.ts";
import { systemClock } from "../../../src/kube/system-clock.ts";

/** `warmUp` is fetched before anything is measured: it loads the code. */
export interface FetchJob {
  readonly dir: string;
  readonly hfEndpoint: string;
  readonly warmUp: ModelRequest;
  /** All at once. */
  readonly requests: readonly ModelRequest[];
}

const job = JSON.parse(process.argv[2] ?? "") as FetchJob;
const store = await openStore({
  dir: job.dir,
  clock: systemClock,
  log: pino({ level: "silent" }),
  allowedRoots: [],
  reserveBytes: 0,
  hfEndpoint: job.hfEndpoint,
  allowLoopback: true,
});
const { signal } = new AbortController();
await store.fetch(job.warmUp, { signal });
const before = process.memoryUsage.rss();
let peak = before;
const watching = setInterval(() => {
  peak = Math.max(peak, process.memoryUsage.rss());
}, 20);
const startedAt = performance.now();
await Promise.all(job.requests.map((request) => store.fetch(request, { signal })));
const ms = performance.now() - startedAt;
clearInterval(watching);
console.log(JSON.stringify({ ms, growthBytes: peak - before }));
