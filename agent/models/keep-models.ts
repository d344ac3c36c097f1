/** Looks after the stored models beside their use: background verification, damage, and commands from this machine. */
import { API_VERSION } from "../../src/api/group.ts";
import type { Host } from "../../src/api/host.ts";
import { HOSTS } from "../../src/api/kinds.ts";
import type { RecordEvent } from "../../src/kube/events.ts";
import type { Clock, Log } from "../../src/ports.ts";
import type { AgentConfig } from "../config/schema.ts";
import type { ReplicaRunner } from "../replicas/ports.ts";
import type { ModelStore } from "../store/types.ts";
import type { VerifiedFile } from "../store/verification.ts";
import { serveModelCommands } from "./socket.ts";
import { verifyInBackground } from "./verifier.ts";

export interface KeepModelsOptions {
  readonly config: Pick<AgentConfig, "stateDir" | "hostName" | "disk">;
  readonly tempDir: string;
  readonly store: ModelStore;
  readonly runner: Pick<ReplicaRunner, "snapshot" | "hasInspectedAll" | "weightsDamaged">;
  readonly host: () => Host | undefined;
  readonly record: RecordEvent;
  /** Whether the machine has memory to spare. */
  readonly hasMemory: () => boolean;
  readonly clock: Clock;
  readonly log: Log;
  readonly signal: AbortSignal;
}

/** After engines were adopted: what they use is known then. Resolves once the socket listens. */
export async function keepModels(options: KeepModelsOptions): Promise<void> {
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
