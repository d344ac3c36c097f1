/** How much memory the engines of a host may claim together. */
import { parseQuantity } from "../../api/fields/quantity.ts";
import type { Host } from "../../api/host.ts";

/** Memory that a host has for engines and the source of that figure, or why it is unknown. */
export type HostBudget =
  | { readonly known: true; readonly bytes: number; readonly basis: string }
  | { readonly known: false; readonly why: string };

const SMALL_BYTES = 36 * 1024 ** 3;
/** Where neither host nor operator names a GPU budget: what Metal allows by default, by installed memory. */
const SMALL_FRACTION = 0.67;
const LARGE_FRACTION = 0.75;

/** The operator's word, but no more than the host has, else the host's own GPU budget, else a share of its memory; less the system reserve. */
export function hostBudget({ spec, status }: Pick<Host, "spec" | "status">): HostBudget {
  const gross = grossBudget(spec.memory.gpuBudget, status?.memory);
  if (!gross.known) return gross;
  const reserve = spec.memory.systemReserve === undefined ? 0 : parseQuantity(spec.memory.systemReserve);
  if (reserve === undefined) return { known: false, why: "spec.memory.systemReserve is no quantity" };
  return { ...gross, bytes: Math.max(0, gross.bytes - reserve) };
}

function grossBudget(
  override: string | number | undefined,
  memory: NonNullable<Host["status"]>["memory"],
): HostBudget {
  if (override !== undefined) {
    const bytes = parseQuantity(override);
    if (bytes === undefined) return { known: false, why: "spec.memory.gpuBudget is no quantity" };
    const has = memory?.totalBytes ?? 0;
    if (has <= 0 || bytes <= has) return { known: true, bytes, basis: "spec.memory.gpuBudget" };
    return { known: true, bytes: has, basis: "its memory, which is less than spec.memory.gpuBudget" };
  }
  if (memory?.gpuBudgetBytes !== undefined && memory.gpuBudgetBytes > 0) {
    return { known: true, bytes: memory.gpuBudgetBytes, basis: "the host's GPU budget" };
  }
  const totalBytes = memory?.totalBytes ?? 0;
  if (totalBytes === 0) return { known: false, why: "memory not reported" };
  const fraction = totalBytes <= SMALL_BYTES ? SMALL_FRACTION : LARGE_FRACTION;
  return { known: true, bytes: Math.floor(totalBytes * fraction), basis: `${fraction} of its memory` };
}
