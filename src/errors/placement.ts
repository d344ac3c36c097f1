/** Placing services on hosts. */
import type { ErrorEntry } from "../errors.ts";

export const placementErrors = {
} as const satisfies Record<string, ErrorEntry>;
