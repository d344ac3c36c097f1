/** The relay's settings, validated once at start. */
import { resolve } from "node:path";
import { z } from "zod";
import { NAMESPACE_SYSTEM } from "../../src/api/group.ts";
import { parseSettings } from "../../src/api/settings.ts";

const RELAY_HEALTH_PORT = 9469;

export const relayConfigSchema = z.strictObject({
  kubeconfig: z
    .string()
    .min(1)
    .optional()
    .describe(
      "Kubeconfig of the cluster. Default: KUBECONFIG, then ~/.kube/config, then the pod's ServiceAccount.",
    ),
  context: z.string().min(1).optional().describe("Context of the kubeconfig."),
  dir: z
    .string()
    .min(1)
    .overwrite((given) => resolve(given))
    .describe("Folder of the relay: configuration of Envoy, sockets."),
  envoy: z
    .string()
    .min(1)
    .overwrite((program) => (program === "external" ? program : resolve(program)))
    .describe('Envoy program. "external": another process runs Envoy with the folder of the relay.'),
  address: z
    .union([z.ipv4(), z.ipv6()])
    .default("127.0.0.1")
    .describe('IP address on which each service has its port. "::" is every address, of IPv4 too.'),
  namespace: z
    .string()
    .min(1)
    .default(NAMESPACE_SYSTEM)
    .describe("Namespace of the Secret with the certificate that hosts accept."),
  healthAddress: z
    .string()
    .min(1)
    .default("127.0.0.1")
    .describe("Address of /healthz, /readyz and /metrics."),
  healthPort: z.coerce
    .number()
    .int()
    .min(0)
    .max(65535)
    .default(RELAY_HEALTH_PORT)
    .describe("Port of /healthz, /readyz and /metrics. 0 selects a free port."),
});

export type RelayConfig = Readonly<z.output<typeof relayConfigSchema>>;

/** Throws MetalbridgeError that names the key. */
export function parseRelayConfig(input: unknown): RelayConfig {
  return parseSettings(relayConfigSchema, input, "RelayConfigInvalid");
}
