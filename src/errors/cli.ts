/** The command line and the embedded control plane. */
import type { ErrorEntry } from "../errors.ts";

export const cliErrors = {
} as const satisfies Record<string, ErrorEntry>;
