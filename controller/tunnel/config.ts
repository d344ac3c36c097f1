/** Settings of the tunnel, with their defaults. */
import { z } from "zod";

export const tunnelConfigSchema = z.strictObject({
  tunnel: z
    .boolean()
    .default(false)
    .describe(
      "Connect users who may use the Service metalbridge-tunnel with hosts that enable remoteAccess, for `metalbridge logs` and `metalbridge doctor --host` from outside the hosts' network.",
    ),
  tunnelAddress: z.string().min(1).default("0.0.0.0").describe("Address of the tunnel."),
  tunnelPort: z.coerce
    .number()
    .int()
    .min(0)
    .max(65535)
    .default(9466)
    .describe("Its port; 0 for any free one."),
});
