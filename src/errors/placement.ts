/** Placing services on hosts. */
import type { ErrorEntry } from "./entry.ts";

export const placementErrors = {
} as const satisfies Record<string, ErrorEntry>;
