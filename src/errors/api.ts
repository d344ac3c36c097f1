/** The API server: credentials, reachability, CRDs. */
import type { ErrorEntry } from "../errors.ts";

export const apiErrors = {
} as const satisfies Record<string, ErrorEntry>;
