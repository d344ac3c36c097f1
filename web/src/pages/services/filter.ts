/** How the list of services is filtered. Pure. */
import type { ServiceRow } from "../../../../src/console/rows.ts";
import type { ListFilter } from "../../parts/table/filters.tsx";

export const SERVICE_FILTER: ListFilter<ServiceRow> = {
  label: "Filter by name, model, host",
  textsOf: ({ namespace, name, model, quantization, runtime, hosts, state, attention }) => [
    ...[namespace, name, model, quantization, runtime, ...hosts, state.word, attention?.reason ?? ""],
  ],
  levels: { ok: "Ready", busy: "In progress", warn: "Needs attention", bad: "Not serving", idle: "At rest" },
};

/** Why it does not serve; empty for a service that does. */
export function reasonOf({ state, message, attention }: ServiceRow): string {
  if (attention !== undefined) return attention.message;
  return state.level === "ok" ? "" : message;
}
