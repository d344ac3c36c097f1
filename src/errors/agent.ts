/** The agent: its configuration, state folder, host, registration. */
import type { ErrorEntry } from "./entry.ts";

export const agentErrors = {
} as const satisfies Record<string, ErrorEntry>;
