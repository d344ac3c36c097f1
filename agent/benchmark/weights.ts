/** The weights of an ordered benchmark, and the memory that its program needs. */
import type { BenchmarkOrder } from "../../src/api/benchmark.ts";
import { type EngineSettings, engineSettingsSchema } from "../../src/api/engine-settings.ts";
import { MetalbridgeError } from "../../src/api/errors.ts";
import type { KubeClient } from "../../src/kube/types.ts";
import { formatBytes } from "../../src/util/bytes.ts";
import { parseJson } from "../../src/util/parse-json.ts";
import type { EngineDriver } from "../engines/driver/engine.ts";
import type { ReplicaRunner } from "../replicas/context/ports.ts";
import { requestFor } from "../replicas/prepare/fetch.ts";
import { readSourceSecret } from "../replicas/secrets/secrets.ts";
import type { DiskReading, ModelFacts, ModelStore } from "../store/types.ts";

/** Holds the weights in the store while a benchmark uses them. */
export const OWNER = "(benchmark)";
/** A benchmark does not count as use of a model: weights that only a benchmark has fetched remain the first to be evicted, however it ends. */
export const KEEPS_USE = { keepsUse: true } as const;
/** A download for a benchmark leaves this share of the volume free. */
const FREE_SHARE = 0.2;
/** The longest test: generation after a context of 4096 tokens; 512 more for a prompt. */
const CONTEXT_TOKENS = 4096 + 512;

/** Throws MetalbridgeError: `BenchmarkDiskFull`, or why the source or its Secret cannot be read. Evicts nothing. */
export async function fetchWeights(
  { model, namespace }: BenchmarkOrder,
  store: Pick<ModelStore, "disk" | "fetch">,
  client: KubeClient | undefined,
  signal: AbortSignal,
): Promise<void> {
  const why = noRoom(model.sizeBytes, await store.disk());
  if (why !== undefined) throw new MetalbridgeError("BenchmarkDiskFull", why);
  const { credentials } = await readSourceSecret(client, namespace, model.secretRef?.name);
  const options = { signal, owner: OWNER, tenant: OWNER, sparesPrefetched: true };
  await store.fetch({ ...requestFor(model, namespace), credentials }, options);
}

/** Why the weights are not downloaded; undefined if there is room. */
export function noRoom(
  sizeBytes: number | undefined,
  {
    totalBytes,
    freeBytes,
    storeBytes,
    unfinishedBytes = 0,
    quotaBytes = Number.POSITIVE_INFINITY,
  }: DiskReading,
): string | undefined {
  if (sizeBytes === undefined) return "the size of the model is not known before its download";
  const needs = `the model needs ${formatBytes(sizeBytes)}`;
  // An earlier attempt may have left a part of these weights, or all of them.
  const missingBytes = sizeBytes - Math.min(unfinishedBytes, sizeBytes);
  if (freeBytes - missingBytes < FREE_SHARE * totalBytes)
    return `${needs}; ${formatBytes(freeBytes)} of ${formatBytes(totalBytes)} are free`;
  if (storeBytes + missingBytes > quotaBytes)
    return `${needs}; ${formatBytes(storeBytes)} of the quota of ${formatBytes(quotaBytes)} are used`;
  return undefined;
}

/** Throws `BenchmarkDoesNotFit`, with the figures; or why the claim cannot be estimated. */
export function reserveMemory(
  order: BenchmarkOrder,
  facts: ModelFacts,
  driver: EngineDriver,
  runner: Pick<ReplicaRunner, "reserveBenchmark">,
): void {
  const { claimBytes } = driver.claim(claimSettings(order), facts);
  const reserved = runner.reserveBenchmark(claimBytes);
  if (reserved === "reserved") return;
  const { budgetBytes, claimedBytes, availableBytes } = reserved;
  const known = (bytes: number | undefined): string => (bytes === undefined ? "unknown" : formatBytes(bytes));
  throw new MetalbridgeError(
    "BenchmarkDoesNotFit",
    `the benchmark needs ${formatBytes(claimBytes)}: the budget is ${known(budgetBytes)}, of which ${formatBytes(claimedBytes)} are claimed, and ${known(availableBytes)} are available`,
  );
}

/** The settings of the order, which are text, with the context of the longest test. */
function claimSettings({ plan, settings }: BenchmarkOrder): EngineSettings {
  const { cacheTypeK, cacheTypeV, ...others } = settings;
  const values = Object.entries(others).flatMap(([name, text]) => {
    const parsed = engineSettingsSchema.partial().safeParse({ [name]: parseJson(text) });
    return parsed.success ? [parsed.data] : [];
  });
  return Object.assign({}, ...values, {
    mode: "chat",
    contextSize: CONTEXT_TOKENS + plan.tokens,
    parallelSlots: 1,
    promptCacheMiB: 0,
    cacheTypeCustomK: cacheTypeK,
    cacheTypeCustomV: cacheTypeV,
  });
}
