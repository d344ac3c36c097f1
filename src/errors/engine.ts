/** Engines: finding, starting, probing, ending them. */
import type { ErrorEntry } from "./entry.ts";

export const engineErrors = {
} as const satisfies Record<string, ErrorEntry>;
