/** A farm for bad input: one service that must not notice any of it, a bad origin, and as many further agents as a test wants. */
import { readFileSync } from "node:fs";
import path from "node:path";
import { expect } from "vitest";
import { readPartsConfig } from "../../local/control-plane/config.ts";
import { findLlamaServer } from "../../local/control-plane/engine-programs.ts";
import type { InferenceReplica } from "../../src/api/inference-replica.ts";
import { INFERENCE_REPLICAS } from "../../src/api/kinds.ts";
import type { Kind, KubeObject } from "../../src/kube/types.ts";
import { lostOf, startClients } from "../bed/load/clients.ts";
import type { ClientOrder } from "../bed/load/protocol.ts";
import type { Part } from "../bed/part.ts";
import { type System, startSystem } from "../bed/system.ts";
import type { FleetAgent } from "../bed/test-fleet.ts";
import { writeTinyGguf } from "../fixtures/tiny-gguf.ts";
import { type BadOrigin, startBadOrigin } from "./bad-origin.ts";

const LARGE_BYTES = 64 << 20;

export interface ExtraAgent extends Part {
  readonly stateDir: string;
}

export interface BadFleet extends System {
  readonly origin: BadOrigin;
  /** Folder of the test's own. */
  readonly dir: string;
  readonly realEngine: string;
  readonly get: <T extends KubeObject>(kind: Kind<T>, name: string, namespace?: string) => Promise<T>;
  readonly replicasOf: (service: string, namespace?: string) => Promise<readonly InferenceReplica[]>;
  readonly agent: (name: string, options?: FleetAgent) => Promise<ExtraAgent>;
  /** Controller and agent run, and the good service has the engine it began with, which answered all the time. */
  readonly expectUnharmed: () => Promise<void>;
}

/** Resolves once the good service is Ready. */
export async function startBadFleet(): Promise<BadFleet> {
  await using stack = new AsyncDisposableStack();
  const system = stack.use(
    await startSystem({
      agents: [{ config: agentConfig({}) }],
      controllerArgs: ["--allow-loopback", "--stall-ms", "1000", "--look-ms", "3000"],
    }),
  );
  const { farm, services } = system;
  const file = path.join(farm.modelsDir, "good.gguf");
  await writeTinyGguf(file);
  const origin = stack.use(await startBadOrigin(readFileSync(file), LARGE_BYTES));
  await services.applyService("good", "good.gguf", { placement: { hosts: [farm.hostName] } });
  await services.untilReady("good");
  const { pid } = (await services.replicaOf("good")).status;
  const url = `http://${await services.clusterIp("good")}:8080`;
  const watch = stack.use(
    startClients(system.network.namespace, { url, clients: [WATCHING], timeoutMs: 10_000 }),
  );
  const kept = stack.move();
  return {
    ...system,
    origin,
    get: farm.objects.read,
    dir: farm.dir,
    realEngine: findLlamaServer(readPartsConfig()) ?? "",
    replicasOf: (service, namespace) =>
      farm.objects.list(INFERENCE_REPLICAS, `metalbridge.dev/service=${service}`, namespace),
    agent: async (name, options = {}) => {
      const config = agentConfig(options.config ?? {});
      const { part, stateDir } = await farm.addAgent({ hostName: name, ...options, name, config });
      return { ...part(), stateDir };
    },
    expectUnharmed: async () => {
      expect([farm.controller().isRunning(), farm.agent().isRunning()]).toEqual([true, true]);
      const { status } = await services.replicaOf("good");
      expect(status).toMatchObject({ phase: "Ready", pid, restarts: 0 });
      await watch.untilEachAsked(1);
      expect(lostOf(watch.asked)).toEqual([]);
    },
    [Symbol.asyncDispose]: () => kept.disposeAsync(),
  };
}

/** A question every half second: light, but a service that is touched shows. */
const WATCHING: ClientOrder = {
  name: "watching",
  isKept: false,
  isStreamed: false,
  maxTokens: 1,
  pauseMs: [500, 500],
  retries: false,
};

/** Loopback sources, short patience. */
function agentConfig(config: object): object {
  const sources = { allowLoopback: true, stallMs: 500, attempts: 2 };
  return { disk: { reserve: 0 }, sources, ...config };
}
