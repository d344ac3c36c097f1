/** Settings of the tunnel, with their defaults. */
import { z } from "zod";

export const tunnelConfigSchema = z.strictObject({
  tunnel: z
    .boolean()
    .default(false)
    .describe(
      "Connect users with access to the Service metalbridge-tunnel to hosts that enable remoteAccess, for `metalbridge logs` and `metalbridge doctor --host` from outside the hosts' network.",
    ),
  tunnelAddress: z.string().min(1).default("0.0.0.0").describe("Address of the tunnel."),
  tunnelPort: z.coerce
    .number()
    .int()
    .min(0)
    .max(65535)
    .default(9466)
    .describe("Port of the tunnel. 0 selects a free port."),
});
