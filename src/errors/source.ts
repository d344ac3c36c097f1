/** Where weights come from: addresses, downloads, file formats. */
import type { ErrorEntry } from "./entry.ts";

export const sourceErrors = {
} as const satisfies Record<string, ErrorEntry>;
