/** The memory budget of a host: the total that its engines may claim. */
import { parseQuantity } from "../../api/fields/quantity.ts";
import type { Host } from "../../api/host.ts";

/** Memory budget and its source, or the reason why it is unknown. */
export type HostBudget =
  | { readonly known: true; readonly bytes: number; readonly basis: string }
  | { readonly known: false; readonly why: string };

const SMALL_BYTES = 36 * 1024 ** 3;
/** Fractions of the installed memory that Metal allows by default, used if neither host nor operator states a GPU budget. */
const SMALL_FRACTION = 0.67;
const LARGE_FRACTION = 0.75;

/** The budget in the spec, at most the host's memory, else the reported GPU budget, else a fraction of its memory; minus the system reserve. */
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
  const { totalBytes = 0, gpuBudgetBytes = 0 } = memory ?? {};
  if (override !== undefined) {
    const bytes = parseQuantity(override);
    if (bytes === undefined) return { known: false, why: "spec.memory.gpuBudget is no quantity" };
    if (totalBytes <= 0 || bytes <= totalBytes) return { known: true, bytes, basis: "spec.memory.gpuBudget" };
    return { known: true, bytes: totalBytes, basis: "its memory, which is less than spec.memory.gpuBudget" };
  }
  if (gpuBudgetBytes > 0) return { known: true, bytes: gpuBudgetBytes, basis: "the host's GPU budget" };
  if (totalBytes === 0) return { known: false, why: "memory not reported" };
  const fraction = totalBytes <= SMALL_BYTES ? SMALL_FRACTION : LARGE_FRACTION;
  return { known: true, bytes: Math.floor(totalBytes * fraction), basis: `${fraction} of its memory` };
}
