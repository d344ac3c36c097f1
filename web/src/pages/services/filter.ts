/** Which services the list shows. Pure. */
import type { ServiceRow } from "../../../../src/console/rows.ts";
import { hasWords } from "../../parts/table/filters.tsx";

/** Every word must occur; no level means all. */
export function isShown(row: ServiceRow, words: string, levels: readonly string[]): boolean {
  if (levels.length > 0 && !levels.includes(row.state.level)) return false;
  const { namespace, name, model, quantization, runtime, hosts, state, attention } = row;
  const texts = [
    namespace,
    name,
    model,
    quantization,
    runtime,
    ...hosts,
    state.word,
    attention?.reason ?? "",
  ];
  return hasWords(texts, words);
}

/** Why it does not serve; empty for a service that does. */
export function reasonOf({ state, message, attention }: ServiceRow): string {
  if (attention !== undefined) return attention.message;
  return state.level === "ok" ? "" : message;
}
