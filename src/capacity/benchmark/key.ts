/** Identity of a measurement: what was measured, with which settings, on which class of machines. Pure. */

import type { BenchmarkSettings } from "../../api/benchmark.ts";
import type { Runtime } from "../../api/fields/runtimes.ts";
import type { Model } from "../../api/model.ts";
import { sha256Hex } from "../../util/hash.ts";

/** What a speed depends on besides the machine and the build of the engine. */
export interface BenchmarkSubject {
  /** Content of the model: SHA-256 of its main file, else its key in model stores. */
  readonly content: string;
  readonly runtime: Runtime;
  readonly settings: BenchmarkSettings;
}

/** Undefined until the source of the Model is resolved. */
export function contentOf({ status }: Pick<Model, "status">): string | undefined {
  return status?.sha256 ?? status?.cacheKey;
}

/** Key `<hash>-<class>` in the ConfigMap, of the characters that a key may have. */
export function benchmarkKey({ content, runtime, settings }: BenchmarkSubject, deviceClass: string): string {
  const sorted = Object.entries(settings).sort(([a], [b]) => (a < b ? -1 : 1));
  return `${sha256Hex(JSON.stringify([content, runtime, sorted])).slice(0, 16)}-${deviceClass}`;
}
