/** Starts clients in a network namespace, where a kube-proxy lives, and gathers how each of their requests ended. */
import { spawn } from "node:child_process";
import { once } from "node:events";
import path from "node:path";
import { createInterface } from "node:readline";
import { expect } from "vitest";
import { until } from "../until.ts";
import type { Asked, ClientOrder, Orders } from "./protocol.ts";

export interface Clients extends AsyncDisposable {
  /** So far, in the order in which they ended. */
  readonly asked: readonly Asked[];
  /** Until each client has had so many more answers. */
  readonly untilEachAsked: (more: number) => Promise<void>;
  /** Their last requests are waited for. */
  readonly stop: () => Promise<readonly Asked[]>;
}

const WORKER = path.join(import.meta.dirname, "client-worker.ts");

export function startClients(namespace: string, orders: Orders): Clients {
  const inside = ["netns", "exec", namespace, process.execPath, WORKER, JSON.stringify(orders)];
  const child = spawn("ip", inside, { stdio: ["pipe", "pipe", "inherit"] });
  const closed = once(child, "close");
  const asked: Asked[] = [];
  createInterface({ input: child.stdout }).on("line", (line) => asked.push(JSON.parse(line) as Asked));
  const count = (client: string) => asked.filter((one) => one.client === client).length;
  const stop = async () => {
    child.stdin.end();
    await closed;
    return asked;
  };
  return {
    asked,
    stop,
    untilEachAsked: async (more) => {
      const wanted = orders.clients.map(({ name }) => ({ name, count: count(name) + more }));
      const isDone = () => expect(wanted.filter((one) => count(one.name) < one.count)).toEqual([]);
      await until(isDone);
    },
    [Symbol.asyncDispose]: async () => {
      await stop();
    },
  };
}

const COMMON = { pauseMs: [20, 120], maxTokens: 8, retries: false } as const;

/**
 * Those on fresh connections and on kept ones, streamed and not; the kept ones pause and ask again after a reset. `lasting`
 * says how many tokens last as long as so many of an engine with a core: `pacedTokens` where engines have a pace.
 */
export function allKinds(lasting = (tokens: number) => tokens): readonly ClientOrder[] {
  const kept = { ...COMMON, isKept: true, pauseMs: [350, 900], retries: true } as const;
  const fresh = { ...COMMON, isKept: false } as const;
  return [
    { ...fresh, name: "fresh-1", isStreamed: false },
    { ...fresh, name: "fresh-2", isStreamed: false },
    { ...fresh, name: "fresh-streamed", isStreamed: true, maxTokens: lasting(400) },
    { ...kept, name: "kept-1", isStreamed: false },
    { ...kept, name: "kept-2", isStreamed: false },
    { ...kept, name: "kept-streamed", isStreamed: true, maxTokens: lasting(100) },
  ];
}

/** What went wrong, in words for a failing test. */
export function lostOf(asked: readonly Asked[]): readonly string[] {
  return asked
    .filter(({ failure }) => failure !== "")
    .map(
      ({ client, startedAt, endedAt, failure }) =>
        `${client} ${Math.round(endedAt - startedAt)} ms: ${failure}`,
    );
}
