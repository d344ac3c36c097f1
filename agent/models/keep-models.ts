/** Looks after the stored models beside their use: pins, prefetches, background verification, and commands from this machine. */
import { API_VERSION } from "../../src/api/group.ts";
import type { Host, PrefetchState } from "../../src/api/host.ts";
import { HOSTS } from "../../src/api/kinds.ts";
import type { RecordEvent } from "../../src/kube/events.ts";
import type { KubeClient } from "../../src/kube/types.ts";
import type { Clock, Log } from "../../src/ports.ts";
import type { AgentConfig } from "../config/schema.ts";
import type { ReplicaRunner } from "../replicas/ports.ts";
import type { ModelStore } from "../store/types.ts";
import type { VerifiedFile } from "../store/verification.ts";
import { createPrefetcher } from "./prefetcher.ts";
import { serveModelCommands } from "./socket.ts";
import { verifyInBackground } from "./verifier.ts";

export interface KeepModelsOptions {
  readonly config: Pick<AgentConfig, "stateDir" | "hostName" | "disk">;
  readonly tempDir: string;
  readonly store: ModelStore;
  readonly runner: Pick<ReplicaRunner, "snapshot" | "hasInspectedAll" | "weightsDamaged">;
  readonly client: KubeClient;
  readonly host: () => Host | undefined;
  /** What is prefetched has changed: the Host's status should show it soon. */
  readonly onChange: () => void;
  readonly record: RecordEvent;
  /** Whether the machine has memory to spare. */
  readonly hasMemory: () => boolean;
  readonly clock: Clock;
  readonly log: Log;
  readonly signal: AbortSignal;
}

export interface ModelKeeper {
  /** The Host, whenever it has changed. */
  readonly take: (host: Host) => void;
  /** For the Host's status. */
  readonly report: () => { readonly prefetches: readonly PrefetchState[] };
  /** After engines were adopted: what they use is known then. Resolves once the socket listens. */
  readonly begin: () => Promise<void>;
}

export function createModelKeeper(options: KeepModelsOptions): ModelKeeper {
  const { store } = options;
  const prefetcher = createPrefetcher(options);
  return {
    report: () => ({ prefetches: prefetcher.states() }),
    take: ({ status }) => {
      const wanted = status?.prefetch?.wanted ?? [];
      store.declare({ pinned: [], prefetched: wanted.map(({ model }) => model.source) });
      prefetcher.want(wanted);
    },
    begin: () => keepModels(options),
  };
}

async function keepModels(options: KeepModelsOptions): Promise<void> {
  const { config, runner, hasMemory } = options;
  const onDamaged = (file: VerifiedFile) => reportDamage(file, options);
  void verifyInBackground({
    ...options,
    ...{ everyDays: config.disk.verifyDays, bytesPerSecond: config.disk.verifyRate },
    mayRun: hasMemory,
    onDamaged,
  });
  await serveModelCommands({
    ...{ ...options, stateDir: config.stateDir, onDamaged },
    replicas: () => runner.snapshot(),
    onDone: options.onChange,
    mayRemove: () => runner.hasInspectedAll(),
  });
}

/** On the Host, and on each replica that uses it. */
function reportDamage(file: VerifiedFile, { config, runner, host, record }: KeepModelsOptions): void {
  const note = `${file.file} of ${file.source} does not match its checksum any more (sha256 ${file.sha256}): the disk damaged it. It was set aside and will be downloaded again when it is needed.`;
  const uid = host()?.metadata.uid;
  const regarding = { apiVersion: API_VERSION, kind: HOSTS.kind, name: config.hostName };
  record(uid === undefined ? regarding : { ...regarding, uid }, {
    ...{ type: "Warning", reason: "WeightsDamaged", action: "Verify" },
    note,
  });
  runner.weightsDamaged(file.sha256, note);
}
