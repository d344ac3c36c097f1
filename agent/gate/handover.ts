/**
 * Upgrades the gate: the running gate starts the next one and hands it the listening sockets over Node's IPC channel, the only
 * way to pass them that works on both Linux and macOS. Both accept on the sockets for a moment, so no connection is refused;
 * then the old gate finishes its requests. The next gate runs under its own shim and in its own run directory, so that the
 * agent adopts it like any other.
 */
import type { ChildProcess } from "node:child_process";
import type { Server as NetServer } from "node:net";
import { createIdentityReader } from "../../src/supervise/identity/identity.ts";
import type { SupervisedProcess } from "../../src/supervise/supervised.ts";
import { createSupervisor } from "../../src/supervise/supervisor.ts";
import type { Clock, Log } from "../../src/util/ports.ts";
import type { RouteCounters } from "./counters.ts";
import type { GateProcess } from "./gate-process.ts";

const HANDOVER_MS = 20_000;

/** The agent's order: the next gate's run directory and command. */
export interface HandoverOrder {
  readonly dir: string;
  readonly argv: readonly string[];
  readonly env: Readonly<Record<string, string>>;
  readonly record: object;
}

/** needs: the next gate has read the file, and requests these sockets. serving: it accepts, on its control socket too. */
type FromNext = { readonly needs: readonly string[] } | { readonly serving: true };
type ToNext =
  | { readonly socket: string }
  | { readonly isAll: true }
  | { readonly counters: Readonly<Record<string, RouteCounters>> };

/** Resolves once the next gate serves, with a function that sends it the final counters. Rejects if it does not serve, and kills it. */
export async function startNextGate(
  order: HandoverOrder,
  gate: GateProcess,
  ports: { readonly clock: Clock; readonly log: Log },
): Promise<(counters: Readonly<Record<string, RouteCounters>>) => Promise<void>> {
  const processes = createSupervisor({ ...ports, identity: createIdentityReader(process.platform) });
  let next: ChildProcess | undefined;
  const send = (message: ToNext, server?: NetServer) =>
    new Promise<void>((resolve, reject) => {
      next?.send(message, server, {}, (error) => (error === null ? resolve() : reject(error)));
    });
  const answer = async (message: FromNext): Promise<boolean> => {
    if ("serving" in message) return true;
    for (const key of message.needs) {
      const server = gate.listening(key);
      if (server !== undefined) await send({ socket: key }, server);
    }
    await send({ isAll: true });
    return false;
  };
  let stopWaiting = () => {};
  let started: Promise<SupervisedProcess> | undefined;
  const serving = new Promise<void>((resolve, reject) => {
    stopWaiting = ports.clock.after(HANDOVER_MS, () => reject(new Error("the next gate does not answer")));
    const onChannel = (child: ChildProcess) => {
      next = child;
      child.on("message", (message) => {
        answer(message as FromNext).then((isServing) => isServing && resolve(), reject);
      });
    };
    const onChange = ({ at }: { readonly at: string }) => {
      if (at === "ended" || at === "gone") reject(new Error("the next gate has exited; see its log"));
    };
    started = processes.start(order.dir, { ...order, onChannel }, onChange);
    // A gate that exits before its start is known reports no change.
    started.then((engine) => onChange(engine.state()), reject);
  });
  try {
    await serving;
  } catch (error) {
    (await started?.catch(() => undefined))?.killGroup();
    throw error;
  } finally {
    stopWaiting();
  }
  (await started)?.close();
  next?.unref();
  next?.channel?.unref();
  return (counters) => send({ counters });
}

/** Resolves once the next gate has all sockets of the old one; immediately in a gate that the agent has started. */
export async function receiveSockets(gate: GateProcess): Promise<void> {
  if (process.send === undefined) return;
  await new Promise<void>((resolve) => {
    process.once("disconnect", resolve);
    process.on("message", (message: ToNext, server) => {
      if ("socket" in message) gate.take(message.socket, server as NetServer);
      else if ("isAll" in message) resolve();
      else for (const [id, counters] of Object.entries(message.counters)) gate.addCounters(id, counters);
    });
    process.send?.({ needs: gate.listenKeys() } satisfies FromNext);
  });
  process.channel?.unref();
}

export function notifyServing(): void {
  process.send?.({ serving: true } satisfies FromNext);
}
