/** Looks after the stored models beside their use: pins, prefetches, background verification, and commands from this machine. */
import type { ModelFormat } from "../../src/api/fields/shared.ts";
import { API_VERSION } from "../../src/api/group.ts";
import type { Host, HostModels, PrefetchOrder } from "../../src/api/host.ts";
import { HOSTS } from "../../src/api/kinds.ts";
import type { RecordEvent } from "../../src/kube/event/events.ts";
import type { KubeClient } from "../../src/kube/types.ts";
import { waitMs } from "../../src/kube/wait.ts";
import { defaultFormat, parseSource } from "../../src/models/source/parse.ts";
import type { Clock, Log } from "../../src/util/ports.ts";
import { createSerializer } from "../../src/util/serializer.ts";
import { msToAlignedTime } from "../../src/util/shared-ticks.ts";
import type { AgentConfig } from "../config/schema.ts";
import type { ObservedHost } from "../registration/host-status.ts";
import type { ReplicaRunner } from "../replicas/ports.ts";
import type { ModelStore } from "../store/types.ts";
import type { VerifiedFile } from "../store/verification.ts";
import { createPrefetcher, type Prefetcher } from "./prefetcher.ts";
import { serveModelCommands } from "./socket.ts";

const RETRY_MS = 60_000;
const DAY_MS = 86_400_000;
const VERIFY_LOOK_MS = 600_000;
/** Slow enough that engines that read their weights do not notice. */
const VERIFY_BYTES_PER_SECOND = 8 * 1024 ** 2;

export interface KeepModelsOptions {
  readonly config: Pick<AgentConfig, "stateDir" | "hostName" | "disk" | "sources">;
  readonly tempDir: string;
  readonly store: ModelStore;
  readonly runner: Pick<ReplicaRunner, "snapshot" | "hasInspectedAll" | "weightsDamaged">;
  readonly host: () => Host | undefined;
  /** What is prefetched has changed: the Host's status should show it soon. */
  readonly onChange: () => void;
  /** Whether the machine has memory to spare. */
  readonly hasMemory: () => boolean;
  readonly clock: Clock;
  readonly log: Log;
  readonly signal: AbortSignal;
}

export interface ModelKeeper {
  /** From now on it prefetches, and reports what it finds. Before the first `take`. */
  readonly connect: (cluster: { readonly client: KubeClient; readonly record: RecordEvent }) => void;
  /** The Host, whenever it has changed. */
  readonly take: (host: Host) => void;
  /** For the Host's status. */
  readonly report: () => Pick<ObservedHost, "prefetches" | "verifyRequest" | "verifyDamaged">;
  /** After engines were adopted: what they use is known then. Resolves once the socket listens. */
  readonly begin: () => Promise<void>;
}

interface WhenDamaged {
  readonly onDamaged: (file: VerifiedFile) => void;
}

export function createModelKeeper(options: KeepModelsOptions): ModelKeeper {
  const { store } = options;
  let cluster: { readonly prefetcher: Prefetcher; readonly record: RecordEvent } | undefined;
  const unreported: VerifiedFile[] = [];
  const publishDamage = (file: VerifiedFile) => {
    if (cluster === undefined) return void unreported.push(file);
    reportDamage(file, options, cluster.record);
    cluster.prefetcher.lookAgain();
  };
  const onDamaged = (file: VerifiedFile) => {
    options.runner.weightsDamaged(file.sha256, damageNote(file));
    publishDamage(file);
  };
  const verifier = createRequestedVerification({ ...options, onDamaged });
  const inTurn = createSerializer();
  let lastPinned = "";
  return {
    connect: ({ client, record }) => {
      const { maxDownloads } = options.config.sources;
      cluster = { prefetcher: createPrefetcher({ ...options, client, maxDownloads }), record };
      for (const file of unreported.splice(0)) publishDamage(file);
    },
    report: () => ({ prefetches: cluster?.prefetcher.states() ?? [], ...verifier.done() }),
    take: ({ spec, status }) => {
      const { pinned = [], prefetch = [], removed = [], verifyRequest } = spec.models ?? {};
      const wanted = [...(status?.prefetch?.wanted ?? []), ...prefetch.map(orderOf)];
      store.declare({ pinned, prefetched: wanted.map(({ model }) => model.source) });
      if (pinned.join("\n") !== lastPinned) options.onChange();
      lastPinned = pinned.join("\n");
      cluster?.prefetcher.want(wanted);
      verifier.want(verifyRequest, status?.verifyRequest);
      if (removed.length > 0) void inTurn(() => removeDeclared(removed, options));
    },
    begin: () => keepModels({ ...options, onDamaged }),
  };
}

/** An operator's own wish, of no Model: without credentials but those of the machine. */
function orderOf(model: HostModels["prefetch"][number]): PrefetchOrder {
  const format = model.format ?? impliedFormat(model.source) ?? "gguf";
  return {
    namespace: "",
    name: "",
    model: { ...model, files: model.files ?? [], format, refreshPolicy: "IfNotPresent" },
  };
}

function impliedFormat(source: string): ModelFormat | undefined {
  try {
    return defaultFormat(parseSource(source));
  } catch {
    // The fetch says what is wrong with it.
    return undefined;
  }
}

/** What is in use or pinned stays until it is not. */
async function removeDeclared(removed: HostModels["removed"], options: KeepModelsOptions): Promise<void> {
  const { store, runner, log, onChange } = options;
  if (!runner.hasInspectedAll()) return;
  try {
    for (const { source, fetchedAt } of removed) {
      const removal = await store.remove(source, fetchedAt);
      if (removal.at !== "removed") continue;
      log.info(
        { source, sizeBytes: removal.sizeBytes },
        "model removed, as spec.models.removed of the Host says",
      );
      onChange();
    }
  } catch (err) {
    log.warn({ err }, "cannot remove models");
  }
}

/** Verifies all models when the Host asks for it; a request that was carried out before a restart is known from its status. */
function createRequestedVerification(options: KeepModelsOptions & WhenDamaged) {
  const { store, clock, signal, log, onChange, onDamaged } = options;
  let done: Pick<ObservedHost, "verifyRequest" | "verifyDamaged"> = {};
  let current: string | undefined;
  const verify = async (request: string, damaged = new Set<string>()): Promise<void> => {
    const note = (file: VerifiedFile): void => {
      damaged.add(file.source);
      onDamaged(file);
    };
    try {
      const files = await store.verify({ signal, onDamaged: note });
      log.info({ files: files.length }, "stored models verified, as the Host asks");
    } catch (err) {
      if (signal.aborted) return;
      log.warn({ err }, "cannot verify stored models; retrying");
      clock.after(RETRY_MS, () => {
        // What was found is set aside, and not there to be found again.
        if (request === current) void verify(request, damaged);
      });
      return;
    }
    if (request !== current) return;
    done = { verifyRequest: request, verifyDamaged: damaged.size === 0 ? undefined : [...damaged] };
    onChange();
  };
  return {
    done: () => done,
    want: (request: string | undefined, carriedOut: string | undefined) => {
      if (done.verifyRequest === undefined && carriedOut !== undefined) done = { verifyRequest: carriedOut };
      if (request === undefined || request === done.verifyRequest || request === current) return;
      current = request;
      void verify(request);
    },
  };
}

async function keepModels(options: KeepModelsOptions & WhenDamaged): Promise<void> {
  const { config, runner, onDamaged } = options;
  void verifyInBackground(options);
  await serveModelCommands({
    ...{ ...options, stateDir: config.stateDir, onDamaged },
    replicas: () => runner.snapshot(),
    onDone: options.onChange,
    mayRemove: () => runner.hasInspectedAll(),
  });
}

/** Each file once in `disk.verifyDays`, slowly, oldest first. Resolves once the signal is aborted. */
async function verifyInBackground(options: KeepModelsOptions & WhenDamaged): Promise<void> {
  const { clock, log, signal, config, hasMemory } = options;
  while (config.disk.verifyDays > 0 && !signal.aborted) {
    await waitMs(clock, msToAlignedTime(clock.monotonicMs(), VERIFY_LOOK_MS), signal);
    // Reading fills the file cache of the machine.
    if (signal.aborted || !hasMemory()) continue;
    await verifyDue(options).catch((err: unknown) => {
      if (!signal.aborted) log.warn({ err }, "cannot verify stored models");
    });
  }
}

async function verifyDue(options: KeepModelsOptions & WhenDamaged): Promise<void> {
  const { store, clock, log, signal, config, hasMemory, onDamaged } = options;
  const files = await store.verify({
    signal,
    beforeMs: clock.nowMs() - config.disk.verifyDays * DAY_MS,
    bytesPerSecond: VERIFY_BYTES_PER_SECOND,
    onDamaged,
    mayContinue: hasMemory,
  });
  if (files.length > 0) log.info({ files: files.length }, "stored models verified");
}

function damageNote(file: VerifiedFile): string {
  return `${file.file} of ${file.source} does not match its checksum any more (sha256 ${file.sha256}): the disk damaged it. It was set aside and will be downloaded again when it is needed.`;
}

/** On the Host; the runner reports it on each replica that uses the file. */
function reportDamage(file: VerifiedFile, { config, host }: KeepModelsOptions, record: RecordEvent): void {
  const uid = host()?.metadata.uid;
  const regarding = { apiVersion: API_VERSION, kind: HOSTS.kind, name: config.hostName };
  record(uid === undefined ? regarding : { ...regarding, uid }, {
    ...{ type: "Warning", reason: "WeightsDamaged", action: "Verify" },
    note: damageNote(file),
  });
}
