/** Clients that run inside a network namespace, each asking one question after the other. They end with standard input. */
import type { Agent } from "node:http";
import { setTimeout as pause } from "node:timers/promises";
import { type Answer, ask, monotonicEpochMs } from "./ask.ts";
import { freshAgent, keepAliveAgent } from "./connections.ts";
import { startTracking } from "./conntrack.ts";
import type { Asked, ClientOrder, Orders } from "./protocol.ts";

const RESET = /^(ECONNRESET|EPIPE)\b|socket hang up/;

const { url, clients, timeoutMs = 60_000, tracks } = JSON.parse(process.argv[2] ?? "") as Orders;
const tracking = tracks === true ? startTracking() : undefined;
const end = new AbortController();
process.stdin.on("end", () => end.abort()).resume();
// Nothing says when conntrack has begun to listen but that it hears of a connection.
while (tracking?.hasHeard() === false && !end.signal.aborted) {
  await fetch(`${url}/health`, { signal: end.signal }).catch(() => {});
  await pause(20);
}
await Promise.all(clients.map(run));
if (tracking !== undefined) process.exit(0);

async function run(client: ClientOrder): Promise<void> {
  const agent = client.isKept ? keepAliveAgent() : freshAgent();
  while (!end.signal.aborted) {
    const { name, isKept, isStreamed, pauseMs } = client;
    const startedAt = monotonicEpochMs();
    const { failure, reset, endpoint } = await askPatiently(client, agent);
    const seen = {
      client: name,
      isKept,
      isStreamed,
      startedAt,
      endedAt: monotonicEpochMs(),
      failure,
      endpoint,
    };
    const asked: Asked = reset === undefined ? seen : { ...seen, reset };
    process.stdout.write(`${JSON.stringify(asked)}\n`);
    const [from, to] = pauseMs;
    // Without a pause the next question leaves in the same turn in which the answer came.
    if (to > 0) {
      await pause(from + Math.random() * (to - from), undefined, { signal: end.signal }).catch(() => {});
      // Timers come first where this process was held off: now it learns which connections were closed meanwhile.
      await pause(5);
    }
  }
  agent.destroy();
}

async function askPatiently(client: ClientOrder, agent: Agent): Promise<Ended> {
  const { isStreamed, maxTokens, retries } = client;
  const question = { url, isStreamed, agent, maxTokens, timeoutMs };
  const startedAt = monotonicEpochMs();
  const answer = await ask(question);
  if (!(retries && isReset(answer))) return endOf(answer, startedAt);
  const againAt = monotonicEpochMs();
  return { ...(await endOf(await ask(question), againAt)), reset: answer.failure };
}

type Ended = Pick<Asked, "failure" | "endpoint"> & { readonly reset?: string };

async function endOf(answer: Answer, startedAt: number): Promise<Ended> {
  return { failure: answer.failure, endpoint: await tracking?.endpointFor(answer, startedAt) };
}

/** What an HTTP library may retry: as far as a client can know, the connection was closed before the request arrived. */
function isReset({ failure, idleMs, firstByteAt }: Answer): boolean {
  return idleMs !== undefined && firstByteAt === undefined && RESET.test(failure);
}
