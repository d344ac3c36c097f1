/** The load: runs in the clients' namespace, sends requests at a steady pace and reports each result. */
import type { Agent } from "node:http";
import { createInterface } from "node:readline";
import { ask, monotonicEpochMs } from "../../bed/load/ask.ts";
import { freshAgent, keepAliveAgent } from "../../bed/load/connections.ts";
import { startTracking } from "../../bed/load/conntrack.ts";
import { createRandom } from "../../bed/random.ts";
import type { Orders, Result, Target } from "./protocol.ts";

const TIMEOUT_MS = 45_000;
/** Shorter than our own, so that the gateway says why. */
const DEADLINE_SECONDS = 30;
const random = createRandom(Number(process.argv[2] ?? 1));
const tracking = startTracking();
const kept = new Map<string, Agent>();
const timers = new Map<string, NodeJS.Timeout>();
const targets = new Map<string, Target>();
let lastId = 0;

process.once("SIGTERM", () => process.exit(0));
createInterface({ input: process.stdin })
  .on("line", (line) => follow(JSON.parse(line) as Orders))
  // The harness is gone, and with it the reader of our output.
  .on("close", () => process.exit(0));

function follow(orders: Orders): void {
  const wanted = new Map(orders.targets.map((target) => [nameOf(target), target]));
  for (const service of targets.keys()) if (!wanted.has(service)) stop(service);
  for (const [service, target] of wanted) {
    if (targets.get(service)?.url !== target.url) stop(service);
    targets.set(service, target);
    if (!timers.has(service)) next(service);
  }
}

function stop(service: string): void {
  clearTimeout(timers.get(service));
  timers.delete(service);
  targets.delete(service);
  kept.delete(service);
}

/** A service has up to two targets. */
function nameOf({ service, key }: Target): string {
  return key === undefined ? service : `${service} by the gateway`;
}

/** The pace is the clients', whatever the answers take. */
function next(service: string): void {
  const target = targets.get(service);
  if (target === undefined) return;
  void send(target);
  const gapMs = (1_000 / target.requestsPerSecond) * (0.5 + random.next());
  timers.set(
    service,
    setTimeout(() => next(service), gapMs),
  );
}

async function send(target: Target): Promise<void> {
  const { service, url, key } = target;
  lastId += 1;
  const id = lastId;
  const isStreamed = random.next() < 0.5;
  const isKeptAlive = random.next() < 0.5;
  const maxTokens = isStreamed ? random.integer(20, 200) : random.integer(4, 40);
  const startedAt = monotonicEpochMs();
  const agent = isKeptAlive ? keptAgent(nameOf(target)) : freshAgent();
  const answer = await ask({
    ...{ url, isStreamed, agent, maxTokens, timeoutMs: TIMEOUT_MS },
    by: key === undefined ? undefined : { key, model: service, deadlineSeconds: DEADLINE_SECONDS },
  });
  const endedAt = monotonicEpochMs();
  const { localPort, ...rest } = answer;
  const endpoint = key === undefined ? await tracking.endpointFor(answer, startedAt) : undefined;
  const result: Result = {
    id,
    service,
    isByGateway: key !== undefined,
    isStreamed,
    isKeptAlive,
    startedAt,
    endedAt,
    ...rest,
    ...(endpoint === undefined ? {} : { endpoint }),
  };
  process.stdout.write(`${JSON.stringify(result)}\n`);
}

function keptAgent(service: string): Agent {
  const agent = kept.get(service) ?? keepAliveAgent();
  kept.set(service, agent);
  return agent;
}
