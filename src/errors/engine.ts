/** Engines: finding, starting, probing, ending them. */
import type { ErrorEntry } from "../errors.ts";

export const engineErrors = {
} as const satisfies Record<string, ErrorEntry>;
