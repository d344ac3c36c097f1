/** The gateway: its configuration and its Envoy. */
import type { ErrorEntry } from "./entry.ts";

export const gatewayErrors = {
  GatewayConfigInvalid: {
    what: "A setting of the gateway is unknown or has an invalid value; the message names it.",
    do: "fix the setting",
    command: "metalbridge gateway --help",
  },
} as const satisfies Record<string, ErrorEntry>;
