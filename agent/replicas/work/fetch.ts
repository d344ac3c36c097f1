/** The replica's weights: looked for on disk, fetched in the background, their failures turned into states. */
import type { ReplicaModel } from "../../../src/api/inference-replica.ts";
import { describeError, MetalbridgeError } from "../../../src/errors.ts";
import type { ModelState } from "../../../src/replica/observed.ts";
import { fetchRetryMs } from "../../../src/replica/timings.ts";
import { isHopeless } from "../../../src/replica/verdicts.ts";
import { parseSource } from "../../../src/source/source.ts";
import type { FetchProgress, ModelRequest, StoredModel } from "../../store/types.ts";
import type { RunnerContext } from "../context.ts";
import type { ReplicaState } from "../state.ts";
import { holdContents, keepModel } from "./found.ts";
import { readSourceSecret } from "./secrets.ts";

const PROGRESS_MS = 1_000;

/** Sets `state.model` from the disk, once; without network. */
export async function resolveModel(state: ReplicaState, context: RunnerContext): Promise<void> {
  const template = state.desired?.spec.template;
  if (isUnsized(state, context) || isRefusedInPlace(state, context)) return lookOnDisk(state, context);
  if (template === undefined || state.model.at !== "unknown") return;
  await lookOnDisk(state, context);
  // A source that may have changed is looked at again before each start; the store answers quickly if it has not.
  // What is there is held meanwhile: it serves on where the source cannot be asked.
  if (template.model.refreshPolicy === "OnChange") state.model = { at: "absent" };
}

/** A file whose header told nothing may have been replaced by a better one. */
function isUnsized({ model, lookedAt }: ReplicaState, { ports, timings }: RunnerContext): boolean {
  if (model.at !== "stored" || model.claim?.at !== "unknown") return false;
  return lookedAt === undefined || ports.clock.monotonicMs() - lookedAt >= timings.outsideMs;
}

/** A file on this host that is no model, or not the one that was meant, may have been corrected: a look costs next to nothing. */
function isRefusedInPlace({ model, desired }: ReplicaState, { ports }: RunnerContext): boolean {
  const template = desired?.spec.template;
  if (template === undefined || model.at !== "failed" || model.transient) return false;
  const isInPlace = isOnHost(template.model) && (template.draft === undefined || isOnHost(template.draft));
  return isInPlace && ports.clock.monotonicMs() >= model.retryAt;
}

function isOnHost({ source }: ReplicaModel): boolean {
  try {
    return parseSource(source).kind === "file";
  } catch {
    return false;
  }
}

/** The weights of an engine that already runs: they are in use, and status names them. */
export function claimModel(state: ReplicaState, context: RunnerContext): void {
  state.jobs.run("claim", async () => {
    await lookOnDisk(state, context);
    return true;
  });
}

/** Asks the disk alone, whatever the policy: what was found, or that it is not there. */
export async function lookOnDisk(state: ReplicaState, context: RunnerContext): Promise<void> {
  const template = state.desired?.spec.template;
  if (template === undefined) return;
  try {
    const [model, draft] = await Promise.all([
      context.ports.store.resolve(onDisk(template.model)),
      template.draft === undefined ? undefined : context.ports.store.resolve(onDisk(template.draft)),
    ]);
    holdContents(state, context, model, draft);
    if (model === undefined || (template.draft !== undefined && draft === undefined))
      state.model = { at: "absent" };
    else await keepModel(state, context, model, draft);
  } catch (error) {
    state.model = failed(state, error, context);
  }
}

/** Starts the download as a job; progress and end enqueue the replica. False while an earlier one still ends. */
export function fetchModel(state: ReplicaState, context: RunnerContext): boolean {
  if (state.jobs.isRunning("fetch")) return false;
  state.model = { at: "fetching", bytes: 0 };
  state.jobs.run("fetch", async (signal) => {
    try {
      await fetchAll(state, context, signal);
      state.fetchFailures = 0;
    } catch (error) {
      if (signal.aborted) state.model = { at: "unknown" };
      else state.model = await fallBack(state, error, context);
    }
    return true;
  });
  return true;
}

async function fetchAll(state: ReplicaState, context: RunnerContext, signal: AbortSignal): Promise<void> {
  const { desired } = state;
  if (desired === undefined) return;
  const { model, draft } = desired.spec.template;
  const namespace = desired.metadata.namespace ?? "";
  const onProgress = watchProgress(state, context);
  const fetchOne = async (wanted: ReplicaModel): Promise<StoredModel> => {
    const secret = await readSourceSecret(context.ports.client, namespace, wanted.secretRef?.name);
    return context.ports.store.fetch({ ...requestFor(wanted), ...secret }, { signal, onProgress });
  };
  const stored = await fetchOne(model);
  // The draft's download may need room, and must not take it from the model.
  holdContents(state, context, stored);
  await keepModel(state, context, stored, draft === undefined ? undefined : await fetchOne(draft));
}

function requestFor(model: ReplicaModel): ModelRequest {
  return {
    source: model.source,
    files: model.files,
    mmproj: model.mmproj,
    sha256: model.sha256,
    format: model.format,
    refreshPolicy: model.refreshPolicy,
  };
}

/** The same without a question to the source. */
function onDisk(model: ReplicaModel): ModelRequest {
  return { ...requestFor(model), refreshPolicy: "IfNotPresent" };
}

/** Weights that are there serve on when only the question for newer ones failed. */
async function fallBack(state: ReplicaState, error: unknown, context: RunnerContext): Promise<ModelState> {
  const model = state.desired?.spec.template.model;
  const draft = state.desired?.spec.template.draft;
  if (model?.refreshPolicy === "OnChange" && draft === undefined) {
    const stored = await context.ports.store.resolve(requestFor(model)).catch(() => undefined);
    if (stored !== undefined) {
      state.log.warn({ err: error }, "could not look for newer weights; using those on disk");
      await keepModel(state, context, stored, undefined);
      return state.model;
    }
  }
  return failed(state, error, context);
}

function failed(state: ReplicaState, error: unknown, context: RunnerContext): ModelState {
  const { clock } = context.ports;
  const found = findingOf(error);
  // Another look at the same file, which is as it was.
  if (state.model.at === "failed" && state.model.message === found.message)
    return { at: "failed", ...found, retryAt: clock.monotonicMs() + context.timings.outsideMs };
  state.fetchFailures += 1;
  context.counts.fetchFailures.add({ reason: found.code });
  if (error instanceof MetalbridgeError)
    state.log.warn({ code: found.code, message: error.message }, "weights not available");
  else state.log.error({ err: error }, "fetching failed unexpectedly");
  const delayMs = fetchRetryMs(context.timings, state.fetchFailures, context.random());
  return { at: "failed", ...found, retryAt: clock.monotonicMs() + delayMs };
}

type Finding = Omit<Extract<ModelState, { at: "failed" }>, "at" | "retryAt">;

function findingOf(error: unknown): Finding {
  if (error instanceof MetalbridgeError)
    return { code: error.code, message: describeError(error), transient: !isHopeless(error.code) };
  const message = `fetching the weights failed: ${error instanceof Error ? error.message : String(error)}`;
  return { code: "ReplicaStepFailed", message, transient: true };
}

function watchProgress(state: ReplicaState, context: RunnerContext): (progress: FetchProgress) => void {
  const { clock } = context.ports;
  let from = { at: clock.monotonicMs(), bytes: undefined as number | undefined };
  return ({ bytes, totalBytes }) => {
    const now = clock.monotonicMs();
    const before = state.model.at === "fetching" ? state.model : undefined;
    const isDue = now - from.at >= PROGRESS_MS || from.bytes === undefined;
    const moved = bytes - (from.bytes ?? bytes);
    const speed =
      isDue && from.bytes !== undefined ? (moved * 1_000) / (now - from.at) : before?.bytesPerSecond;
    state.model = {
      at: "fetching",
      bytes,
      ...(totalBytes === undefined ? {} : { totalBytes }),
      ...(speed === undefined ? {} : { bytesPerSecond: speed }),
    };
    if (!isDue) return;
    from = { at: now, bytes };
    context.enqueue(state.uid);
  };
}
