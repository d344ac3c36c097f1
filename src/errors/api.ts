/** The API server: credentials, reachability, CRDs. */
import type { ErrorEntry } from "./entry.ts";

export const apiErrors = {
} as const satisfies Record<string, ErrorEntry>;
