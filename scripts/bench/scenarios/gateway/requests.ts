/** Requests of chat completions, and when their responses and tokens arrived. */
import { Agent, request } from "node:http";
import { setTimeout as pause } from "node:timers/promises";
import { createRandom } from "../../../../test/bed/random.ts";

/** A place that answers, directly or by way of something in front of it. */
export interface Way {
  readonly name: string;
  /** URL of its chat completions. */
  readonly url: string;
  readonly headers?: Readonly<Record<string, string>>;
}

export interface ChatResponse {
  readonly ms: number;
  /** The last bytes received. */
  readonly text: string;
  /** From the daemon to here, of each token of a paced stream. */
  readonly delaysMs: readonly number[];
}

export const CONNECTIONS = 64;

/** Each request on a connection of its own choice, which stays open. */
export function openConnections(count = CONNECTIONS): readonly Agent[] {
  return Array.from({ length: count }, () => new Agent({ keepAlive: true, maxSockets: 1 }));
}

export function closeConnections(connections: readonly Agent[]): void {
  for (const connection of connections) connection.destroy();
}

export function chatPath(base: string): string {
  return `${base}/v1/chat/completions`;
}

/** Rejects unless the response is whole. */
export function ask(way: Way, agent: Agent, body: string | Buffer): Promise<ChatResponse> {
  const startedAt = performance.now();
  return new Promise((resolve, reject) => {
    const length = { "content-type": "application/json", "content-length": Buffer.byteLength(body) };
    const call = request(way.url, { method: "POST", agent, headers: { ...length, ...way.headers } });
    call.once("error", reject).once("response", (response) => {
      const delaysMs: number[] = [];
      let text = "";
      response.setEncoding("utf8").on("data", (chunk: string) => {
        const now = performance.timeOrigin + performance.now();
        for (const [, sentAt] of chunk.matchAll(/"created":(\d+\.\d+)/g)) delaysMs.push(now - Number(sentAt));
        text = (text + chunk).slice(-500);
      });
      response.once("error", reject).once("end", () => {
        const isWhole = response.statusCode === 200 && /data: \[DONE\]\n\n$|"choices"/.test(text);
        if (isWhole) resolve({ ms: performance.now() - startedAt, text, delaysMs });
        else reject(new Error(`incomplete response of ${way.name}: ${response.statusCode} ${text}`));
      });
    });
    call.end(body);
  });
}

export interface Pace {
  readonly perSecond: number;
  readonly requests: number;
}

/**
 * Sends at random moments of a set rate, on one connection after the other, and never waits for a response. The moments are the
 * same in each call.
 */
export async function askAtPace(
  way: Way,
  connections: readonly Agent[],
  body: Buffer,
  { perSecond, requests }: Pace,
): Promise<readonly number[]> {
  const random = createRandom(1);
  const responses: Promise<ChatResponse>[] = [];
  let next = performance.now();
  for (let sent = 0; sent < requests; sent += 1) {
    const agent = connections[sent % connections.length];
    if (agent === undefined) throw new Error("there is no connection");
    const response = ask(way, agent, body);
    // A failure is reported when all are sent, not where nothing waits for it yet.
    response.catch(() => {});
    responses.push(response);
    next += random.exponential(1_000 / perSecond);
    await pause(Math.max(0, next - performance.now()));
  }
  return (await Promise.all(responses)).map(({ ms }) => ms);
}
