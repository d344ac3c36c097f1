/** The replica's weights: finds them on disk or fetches them in the background, and estimates the claim from them. */

import { stat } from "node:fs/promises";
import { describeError, MetalbridgeError } from "../../../src/api/errors.ts";
import { ggufSchema } from "../../../src/api/fields/gguf.ts";
import type { PrefetchOrder } from "../../../src/api/host.ts";
import {
  type ReplicaModel,
  type ReplicaTemplate,
  weightsOfTemplate,
} from "../../../src/api/inference-replica.ts";
import type { KubeClient } from "../../../src/kube/types.ts";
import { parseSource } from "../../../src/models/source/parse.ts";
import type { EngineDriver } from "../../engines/driver/engine.ts";
import type { FetchProgress, ModelFacts, ModelRequest, ModelStore, StoredModel } from "../../store/types.ts";
import { contentsOf } from "../../store/usage.ts";
import type { RunnerContext } from "../context/context.ts";
import {
  type Correction,
  type FailedAttempt,
  findCorrection,
  retryDelayMs,
} from "../evidence/corrections.ts";
import type { ModelState, OwnClaim } from "../evidence/observed.ts";
import { isTerminal } from "../evidence/terminal-failures.ts";
import { recordReplicaEvent } from "../report/events.ts";
import { readSourceSecret, versionOfSecret } from "../secrets/secrets.ts";
import { countLoad } from "../state/counts.ts";
import { clearTerminal, setPast } from "../state/history.ts";
import { runOf } from "../state/run.ts";
import { type ReplicaState, refOf, replicaOf } from "../state/state.ts";
import {
  forgetWeights,
  noteCorrected,
  noteDamaged,
  noteIdentity,
  setWeights,
  storedFiles,
  type WeightFiles,
  type WeightsState,
} from "../state/weights.ts";

const PROGRESS_MS = 1_000;

/** Sets `state.weights` from the disk, once, without network access. */
export async function resolveModel(state: ReplicaState, context: RunnerContext): Promise<void> {
  if (state.weights.at === "stored" && state.weights.isDamaged === true) forgetWeights(state);
  if (state.weights.at === "unknown" || isUnsized(state, context) || isRefusedInPlace(state, context))
    await resolveOnDisk(state, context);
}

/** True if the header gave no size and the file may have been replaced since. */
function isUnsized({ weights }: ReplicaState, { ports, timings }: RunnerContext): boolean {
  if (weights.at !== "stored" || weights.claim?.at !== "unknown") return false;
  return ports.clock.monotonicMs() - weights.inspectedAt >= timings.correctionMs;
}

/** True if a file on this host was refused and may have been corrected since: checking it is cheap. */
function isRefusedInPlace(state: ReplicaState, { ports }: RunnerContext): boolean {
  const template = replicaOf(state)?.spec.template;
  const { weights } = state;
  if (template === undefined || weights.at !== "failed" || weights.transient) return false;
  return weightsOfTemplate(template).every(isOnHost) && ports.clock.monotonicMs() >= weights.retryAt;
}

/** Assigns the files that were found for `weightsOfTemplate(template)`, in that order; undefined if one is missing. */
function filesOf(
  template: ReplicaTemplate,
  stored: readonly (StoredModel | undefined)[],
): WeightFiles | undefined {
  const [model, ...others] = stored.filter((one) => one !== undefined);
  if (model === undefined || others.length < stored.length - 1) return undefined;
  const draft = template.draft && others.shift();
  const projector = template.projector && others.shift();
  return { model, draft, projector, loraAdapters: others };
}

function isOnHost({ source }: ReplicaModel): boolean {
  try {
    return parseSource(source).kind === "file";
  } catch {
    return false;
  }
}

/** Resolves the weights of an adopted engine: the store must keep them, and status names them. */
export function claimModel(state: ReplicaState, context: RunnerContext): void {
  state.jobs.run("claim", async () => {
    await resolveOnDisk(state, context);
    return true;
  });
}

/** Checks only the disk. */
export async function resolveOnDisk(state: ReplicaState, context: RunnerContext): Promise<void> {
  const replica = replicaOf(state);
  if (replica === undefined) return;
  const { template } = replica.spec;
  const { namespace = "" } = replica.metadata;
  try {
    const stored = await Promise.all(
      weightsOfTemplate(template).map((requested) =>
        storeOf(requested, state, context).resolve(requestFor(requested, namespace), state.uid),
      ),
    );
    holdContents(state, context, ...stored);
    const files = filesOf(template, stored);
    if (files === undefined) setWeights(state, { at: "absent" });
    else await storeWeights(state, context, files);
  } catch (error) {
    setWeights(
      state,
      failed(state, error, context, { isOnHost: weightsOfTemplate(template).some(isOnHost) }),
    );
  }
}

/** Starts the download as a job; its progress and its end enqueue the replica. False while an earlier download is still stopping. */
export function startModelFetch(state: ReplicaState, context: RunnerContext): boolean {
  if (state.jobs.isRunning("fetch")) return false;
  setWeights(state, { at: "fetching", bytes: 0 });
  setPast(state, { fetchingSince: state.past.fetchingSince ?? context.ports.clock.monotonicMs() });
  state.jobs.run("fetch", async (signal) => {
    let attempt: FailedAttempt = { isOnHost: false };
    const onAttempt = (next: FailedAttempt) => {
      attempt = next;
    };
    try {
      await fetchAll(state, context, { signal, onAttempt });
      notePullTime(state, context);
      // The failure may have been caused by damaged files, which the download has replaced.
      clearTerminal(state);
    } catch (error) {
      if (signal.aborted) {
        forgetWeights(state);
        setPast(state, { fetchingSince: undefined });
      } else {
        const roomBytes = await storeRoomBytes(context.ports.store);
        setWeights(state, failed(state, error, context, { ...attempt, roomBytes }));
      }
    }
    return true;
  });
  return true;
}

/** Retries and the time in this host's queue of downloads count: the replica has waited for all of it. */
function notePullTime(state: ReplicaState, { counts, ports }: RunnerContext): void {
  const { template } = replicaOf(state)?.spec ?? {};
  const { fetchingSince } = state.past;
  if (template !== undefined && fetchingSince !== undefined)
    countLoad(counts, template, "pull", ports.clock.monotonicMs() - fetchingSince);
  setPast(state, { fetchFailures: 0, fetchingSince: undefined });
}

/** Disk space left for models; undefined if it cannot be read. */
export async function storeRoomBytes(store: Pick<ModelStore, "disk">): Promise<number | undefined> {
  const disk = await store.disk().catch(() => undefined);
  if (disk === undefined) return undefined;
  const { freeBytes, storeBytes, quotaBytes = Number.POSITIVE_INFINITY } = disk;
  return Math.min(freeBytes, quotaBytes - storeBytes);
}

async function fetchAll(
  state: ReplicaState,
  context: RunnerContext,
  {
    signal,
    onAttempt,
  }: { readonly signal: AbortSignal; readonly onAttempt: (attempt: FailedAttempt) => void },
): Promise<void> {
  const replica = replicaOf(state);
  if (replica === undefined) return;
  const { template } = replica.spec;
  const namespace = replica.metadata.namespace ?? "";
  const onProgress = watchProgress(state, context);
  const fetchOne = async (requested: ReplicaModel): Promise<StoredModel> => {
    const name = requested.secretRef?.name;
    onAttempt({ isOnHost: isOnHost(requested) });
    const { version, ...secret } = await readSourceSecret(context.cluster()?.client, namespace, name);
    if (name !== undefined) onAttempt({ isOnHost: isOnHost(requested), secret: { name, version } });
    const options = { signal, onProgress, owner: state.uid, tenant: namespace };
    return storeOf(requested, state, context).fetch(
      { ...requestFor(requested, namespace), ...secret },
      options,
    );
  };
  const stored: StoredModel[] = [];
  for (const requested of weightsOfTemplate(template)) {
    stored.push(await fetchOne(requested));
    // The next download may need space, and must not evict these files for it.
    holdContents(state, context, ...stored);
  }
  const files = filesOf(template, stored);
  if (files !== undefined) await storeWeights(state, context, files);
}

/** The engine fetches from a source that only it can read; the store fetches from every other one. */
function storeOf(
  { source }: ReplicaModel,
  state: ReplicaState,
  { ports, runtimes }: RunnerContext,
): Pick<ModelStore, "resolve" | "fetch"> {
  const fetcher = runtimes.driver(replicaOf(state)?.spec.template.runtime ?? "")?.fetcher;
  return fetcher?.takes(source) === true ? fetcher : ports.store;
}

/** The request to the store; `namespace` is that of the Model. */
export function requestFor(model: ReplicaModel | PrefetchOrder["model"], namespace: string): ModelRequest {
  return {
    secret: model.secretRef === undefined ? undefined : `${namespace}/${model.secretRef.name}`,
    source: model.source,
    files: model.files ?? [],
    ignorePatterns: model.ignorePatterns,
    quantization: model.quantization,
    revision: model.revision,
    mmproj: model.mmproj,
    sha256: model.sha256,
    // If the engine does not pull the model itself, the store fetches it as a GGUF.
    format: model.format === "ollama" ? "gguf" : model.format,
    changeMarker: model.changeMarker,
  };
}

function failed(
  state: ReplicaState,
  error: unknown,
  context: RunnerContext,
  attempt: FailedAttempt,
): WeightsState {
  const { ports, timings } = context;
  const found = { ...failureOf(error), correctedBy: findCorrection(failureOf(error).code, attempt) };
  // The same failure again: it is neither counted nor logged.
  if (state.weights.at === "failed" && state.weights.message === found.message)
    return { at: "failed", ...found, retryAt: ports.clock.monotonicMs() + timings.correctionMs };
  setPast(state, { fetchFailures: state.past.fetchFailures + 1 });
  context.counts.fetchFailures.add({ reason: found.code });
  if (error instanceof MetalbridgeError)
    state.log.warn({ code: found.code, message: error.message }, "weights not available");
  else state.log.error({ err: error }, "fetching failed unexpectedly");
  const delayMs = retryDelayMs(found.code, state.past.fetchFailures, attempt, {
    timings,
    random: context.random(),
  });
  return { at: "failed", ...found, retryAt: ports.clock.monotonicMs() + delayMs };
}

type FetchFailure = Omit<Extract<ModelState, { at: "failed" }>, "at" | "retryAt">;

function failureOf(error: unknown): FetchFailure {
  if (error instanceof MetalbridgeError)
    return { code: error.code, message: describeError(error), transient: !isTerminal(error.code) };
  const message = `fetching the weights failed: ${error instanceof Error ? error.message : String(error)}`;
  return { code: "ReplicaStepFailed", message, transient: true };
}

/** Smaller changes of the free space are normal: other programs create and delete files. */
const NEW_ROOM_BYTES = 64 * 1024 * 1024;

export async function isCorrected(
  by: Correction,
  namespace: string,
  { client, store }: { readonly client: KubeClient | undefined; readonly store: Pick<ModelStore, "disk"> },
): Promise<boolean> {
  if (by.what === "disk") return ((await storeRoomBytes(store)) ?? 0) > by.roomBytes + NEW_ROOM_BYTES;
  return ((await versionOfSecret(client, namespace, by.name)) ?? by.version) !== by.version;
}

/** While a fetch waits for its retry: checks for the correction that the message asks for, and then retries immediately. */
export function watchCorrection(state: ReplicaState, context: RunnerContext): void {
  const { weights } = state;
  const { clock, store } = context.ports;
  if (weights.at !== "failed" || weights.correctedBy === undefined || clock.monotonicMs() >= weights.retryAt)
    return;
  const by = weights.correctedBy;
  state.jobs.run("correction", async () => {
    const ports = { client: context.cluster()?.client, store };
    const isDone = await isCorrected(by, refOf(state)?.namespace ?? "", ports);
    if (!isDone || state.weights !== weights) return "unchanged";
    setPast(state, { fetchFailures: 0 });
    noteCorrected(state, clock.monotonicMs());
    return true;
  });
}

function watchProgress(state: ReplicaState, context: RunnerContext): (progress: FetchProgress) => void {
  const { clock } = context.ports;
  let from = { at: clock.monotonicMs(), bytes: undefined as number | undefined };
  return ({ bytes, totalBytes, queuedBehind }) => {
    const now = clock.monotonicMs();
    const before = state.weights.at === "fetching" ? state.weights : undefined;
    const isTimely = now - from.at >= PROGRESS_MS;
    const isDue = isTimely || from.bytes === undefined || before?.queuedBehind !== queuedBehind;
    const moved = bytes - (from.bytes ?? bytes);
    const bytesPerSecond =
      isTimely && from.bytes !== undefined ? (moved * 1_000) / (now - from.at) : before?.bytesPerSecond;
    setWeights(state, { at: "fetching", bytes, totalBytes, bytesPerSecond, queuedBehind });
    if (!isDue) return;
    from = { at: now, bytes };
    context.enqueue(state.uid);
  };
}

/** Holds these files, and those that a running engine has open, which may be older. */
function holdContents(
  state: ReplicaState,
  { ports }: RunnerContext,
  ...models: readonly (StoredModel | undefined)[]
): void {
  ports.store.hold(state.uid, [...contentsOf(...models), ...(runOf(state)?.file.contents ?? [])]);
}

/** Sets `state.weights`. An unreadable header is recorded, not thrown. */
async function storeWeights(state: ReplicaState, context: RunnerContext, files: WeightFiles): Promise<void> {
  const { store, clock } = context.ports;
  const { model, draft, projector, loraAdapters } = files;
  holdContents(state, context, ...storedFiles(files));
  const [found, draftFound, projectorFound, ...adaptersFound] = await Promise.all([
    store.inspect(model),
    draft && store.inspect(draft),
    projector && store.inspect(projector),
    ...loraAdapters.map((adapter) => store.inspect(adapter)),
  ]);
  const template = replicaOf(state)?.spec.template;
  const driver = context.runtimes.driver(template?.runtime ?? "");
  const gguf = ggufSchema.safeParse(found.gguf);
  setWeights(state, {
    at: "stored",
    files,
    inspectedAt: clock.monotonicMs(),
    sizeBytes: model.sizeBytes,
    sha256: model.sha256,
    gguf: gguf.success ? gguf.data : undefined,
    claim:
      template === undefined || driver === undefined
        ? undefined
        : ownClaim(template, driver, withProjector(found, projectorFound), draftFound, adaptersFound),
  });
}

/** The model with its projector, which may be a Model of its own. */
function withProjector(model: ModelFacts, projector: ModelFacts | undefined): ModelFacts {
  if (projector === undefined) return model;
  const { problem } = projector;
  return { ...model, projectorBytes: projector.sizeBytes, ...(problem === undefined ? {} : { problem }) };
}

/** Memory that the engine will use, estimated from the files on this host. */
function ownClaim(
  { engine }: ReplicaTemplate,
  driver: EngineDriver,
  found: ModelFacts,
  draft: ModelFacts | undefined,
  loraAdapters: readonly ModelFacts[],
): OwnClaim {
  const problem = [found, draft, ...loraAdapters].find((facts) => facts?.problem !== undefined)?.problem;
  if (problem !== undefined) return unknown(new MetalbridgeError(problem.code, problem.message));
  try {
    const memory = driver.claim(engine, found, draft, loraAdapters);
    return { at: "estimated", bytes: memory.claimBytes, memory, basis: driver.claimBasis?.(engine) };
  } catch (error) {
    if (!(error instanceof MetalbridgeError)) throw error;
    return unknown(error);
  }
}

function unknown(error: MetalbridgeError): OwnClaim {
  return { at: "unknown", code: error.code, message: describeError(error) };
}

/**
 * Notes the identity of the files, and later whether they were replaced. Runs as a job, because a network disk may hang, and
 * only while no engine runs: a running engine may have loaded files that are no longer on disk.
 */
export function watchWeights(state: ReplicaState): void {
  const { weights, engine, past } = state;
  if (engine.at !== "none" || weights.at !== "stored") return;
  const hasFailed = past.history.terminal !== undefined;
  if (weights.isReplaced === true || (weights.weights !== undefined && !hasFailed)) return;
  state.jobs.run("weights", async () => {
    const found = await identityOf(...storedFiles(weights.files)).catch(() => undefined);
    // The weights were inspected again meanwhile: this result is about the previous files.
    if (state.weights !== weights) return true;
    if (found === undefined || found === weights.weights) return "unchanged";
    noteIdentity(state, found);
    return hasFailed ? true : "unchanged";
  });
}

/** Handles damaged content: a running engine keeps its open files, and the next start resolves the weights again. True if the replica uses it. */
export function noteDamage(
  state: ReplicaState,
  context: RunnerContext,
  sha256: string,
  note: string,
): boolean {
  const { weights } = state;
  const files = weights.at === "stored" ? storedFiles(weights.files) : [];
  const isUsed = [...contentsOf(...files), ...(runOf(state)?.file.contents ?? [])].includes(sha256);
  if (!isUsed) return false;
  noteDamaged(state);
  state.log.warn({ code: "WeightsDamaged", sha256 }, note);
  recordReplicaEvent(state, context, { type: "Warning", reason: "WeightsDamaged", action: "Verify", note });
  return true;
}

async function identityOf(...models: readonly (StoredModel | undefined)[]): Promise<string> {
  const files = models.flatMap((model) => model?.files ?? []);
  const marks = files.map(async ({ path, sha256 }) => {
    if (sha256 !== undefined) return sha256;
    const { size, mtimeMs } = await stat(path);
    return `${path} ${size} ${mtimeMs}`;
  });
  return (await Promise.all(marks)).join("\n");
}
