/** Maintains the stored models: pins, prefetches, background verification, and commands from this machine. */
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
import type { ReplicaRunner } from "../replicas/context/ports.ts";
import type { ModelStore } from "../store/types.ts";
import type { VerifiedFile } from "../store/verification.ts";
import { createPrefetcher, type Prefetcher } from "./prefetcher.ts";
import { serveModelCommands } from "./socket.ts";

const RETRY_MS = 60_000;
const DAY_MS = 86_400_000;
const VERIFY_CHECK_MS = 600_000;
/** Slow enough that it does not slow down engines that read their weights. */
const VERIFY_BYTES_PER_SECOND = 8 * 1024 ** 2;

export interface ModelMaintenanceOptions {
  readonly config: Pick<AgentConfig, "stateDir" | "hostName" | "disk" | "sources">;
  readonly tempDir: string;
  readonly store: ModelStore;
  readonly runner: Pick<ReplicaRunner, "snapshot" | "hasInspectedAll" | "weightsDamaged">;
  readonly host: () => Host | undefined;
  /** Called when the report has changed and the Host's status must be updated soon. */
  readonly onChange: () => void;
  /** False while the machine is short of memory. */
  readonly hasMemory: () => boolean;
  readonly clock: Clock;
  readonly log: Log;
  readonly signal: AbortSignal;
}

export interface ModelMaintenance {
  /** Starts to prefetch and to report damaged files. Must be called before the first `take`. */
  readonly connect: (cluster: { readonly client: KubeClient; readonly record: RecordEvent }) => void;
  /** Must be called whenever the Host has changed. */
  readonly take: (host: Host) => void;
  /** Fields of the Host's status. */
  readonly report: () => Pick<ObservedHost, "prefetches" | "verifyRequest" | "verifyDamaged">;
  /** Sources that prefetches are downloading. */
  readonly downloads: () => readonly string[];
  /** Must be called after engines were adopted, when the models in use are known. Resolves once the socket listens. */
  readonly begin: () => Promise<void>;
}

type Options = ModelMaintenanceOptions & { readonly onDamaged: (file: VerifiedFile) => void };

export function createModelMaintenance(given: ModelMaintenanceOptions): ModelMaintenance {
  const { store } = given;
  let cluster: { readonly prefetcher: Prefetcher; readonly record: RecordEvent } | undefined;
  const unreported: VerifiedFile[] = [];
  const publishDamage = (file: VerifiedFile) => {
    if (cluster === undefined) return void unreported.push(file);
    reportDamage(file, given, cluster.record);
    cluster.prefetcher.recheck();
  };
  const onDamaged = (file: VerifiedFile) => {
    given.runner.weightsDamaged(file.sha256, damageNote(file));
    publishDamage(file);
  };
  const options = { ...given, onDamaged };
  const verifier = createRequestedVerification(options);
  const inTurn = createSerializer();
  let lastPinned = "";
  return {
    connect: ({ client, record }) => {
      const { maxDownloads } = options.config.sources;
      cluster = { prefetcher: createPrefetcher({ ...options, client, maxDownloads }), record };
      for (const file of unreported.splice(0)) publishDamage(file);
    },
    report: () => ({ prefetches: cluster?.prefetcher.states() ?? [], ...verifier.done() }),
    downloads: () =>
      (cluster?.prefetcher.states() ?? []).flatMap(({ phase, source }) =>
        phase === "Downloading" ? [source] : [],
      ),
    take: ({ spec, status }) => {
      const { pinned = [], prefetch = [], removed = [], verifyRequest } = spec.models ?? {};
      const orders = [...(status?.prefetch?.wanted ?? []), ...prefetch.map(orderOf)];
      store.declare({ pinned, prefetched: orders.map(({ model }) => model.source) });
      if (pinned.join("\n") !== lastPinned) options.onChange();
      lastPinned = pinned.join("\n");
      cluster?.prefetcher.setOrders(orders);
      verifier.request(verifyRequest, status?.verifyRequest);
      if (removed.length > 0) void inTurn(() => removeDeclared(removed, options));
    },
    begin: () => {
      void verifyInBackground(options);
      return serveModelCommands({
        ...options,
        stateDir: options.config.stateDir,
        replicas: () => options.runner.snapshot(),
        onDone: options.onChange,
        hostName: options.config.hostName,
        mayRemove: () => options.runner.hasInspectedAll(),
      });
    },
  };
}

/** The order of an operator, which belongs to no Model and uses only the machine's credentials. */
function orderOf(model: HostModels["prefetch"][number]): PrefetchOrder {
  const format = model.format ?? impliedFormat(model.source) ?? "gguf";
  return {
    namespace: "",
    name: "",
    model: { ...model, format },
  };
}

function impliedFormat(source: string): ModelFormat | undefined {
  try {
    return defaultFormat(parseSource(source));
  } catch {
    // The fetch reports the invalid source.
    return undefined;
  }
}

/** Models in use and pinned models are removed later, on one of the next calls. */
async function removeDeclared(removed: HostModels["removed"], options: Options): Promise<void> {
  const { store, runner, log, onChange } = options;
  if (!runner.hasInspectedAll()) return;
  try {
    for (const { source, fetchedAt } of removed) {
      const removal = await store.remove(source, fetchedAt);
      if (removal.at !== "removed") continue;
      log.info(
        { source, sizeBytes: removal.sizeBytes },
        "removed a model that is in spec.models.removed of the Host",
      );
      onChange();
    }
  } catch (err) {
    log.warn({ err }, "cannot remove models");
  }
}

/** Verifies all models when the Host requests it. The Host's status shows requests that were completed before a restart. */
function createRequestedVerification(options: Options) {
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
      log.info({ files: files.length }, "stored models verified, as the Host requested");
    } catch (err) {
      if (signal.aborted) return;
      log.warn({ err }, "cannot verify stored models; retrying");
      clock.after(RETRY_MS, () => {
        // Damaged files that were already found are in quarantine, so the next run does not find them again.
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
    request: (request: string | undefined, completed: string | undefined) => {
      if (done.verifyRequest === undefined && completed !== undefined) done = { verifyRequest: completed };
      if (request === undefined || request === done.verifyRequest || request === current) return;
      current = request;
      void verify(request);
    },
  };
}

/** Verifies each file once in `disk.verifyDays`, slowly, oldest first. Resolves once the signal is aborted. */
async function verifyInBackground(options: Options): Promise<void> {
  const { store, clock, log, signal, config, hasMemory, onDamaged } = options;
  while (config.disk.verifyDays > 0 && !signal.aborted) {
    await waitMs(clock, msToAlignedTime(clock.monotonicMs(), VERIFY_CHECK_MS), signal);
    // Reading files fills the file cache of the machine.
    if (signal.aborted || !hasMemory()) continue;
    try {
      const files = await store.verify({
        signal,
        beforeMs: clock.nowMs() - config.disk.verifyDays * DAY_MS,
        bytesPerSecond: VERIFY_BYTES_PER_SECOND,
        onDamaged,
        mayContinue: hasMemory,
      });
      if (files.length > 0) log.info({ files: files.length }, "stored models verified");
    } catch (err) {
      if (!signal.aborted) log.warn({ err }, "cannot verify stored models");
    }
  }
}

function damageNote({ file, source, sha256 }: VerifiedFile): string {
  return `${file} of ${source} no longer matches its checksum (sha256 ${sha256}): the disk damaged it. It was moved to quarantine and will be downloaded again when it is needed.`;
}

/** Records the Event of the Host. The runner reports the damage on each replica that uses the file. */
function reportDamage(
  file: VerifiedFile,
  { config, host }: ModelMaintenanceOptions,
  record: RecordEvent,
): void {
  const uid = host()?.metadata.uid;
  const regarding = { apiVersion: API_VERSION, kind: HOSTS.kind, name: config.hostName };
  record(uid === undefined ? regarding : { ...regarding, uid }, {
    type: "Warning",
    reason: "WeightsDamaged",
    action: "Verify",
    note: damageNote(file),
  });
}
