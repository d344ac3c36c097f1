/** The command line and the embedded control plane. */
import type { ErrorEntry } from "./entry.ts";

export const cliErrors = {
} as const satisfies Record<string, ErrorEntry>;
