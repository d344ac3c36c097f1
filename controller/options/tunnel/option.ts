/** The option: connects users with hosts. Controllers that do not lead serve it too. */
import { z } from "zod";
import { listenPort } from "../../../src/api/fields/shared.ts";
import type { Option } from "../../frame/option.ts";
import { startTunnel } from "./tunnel.ts";

export const tunnelConfigSchema = z.strictObject({
  tunnel: z
    .boolean()
    .default(false)
    .describe(
      "Connect users with access to the Service metalbridge-tunnel to hosts that enable remoteAccess, for `metalbridge logs` and `metalbridge doctor --host` from outside the hosts' network.",
    ),
  tunnelAddress: z.string().min(1).default("0.0.0.0").describe("Address of the tunnel."),
  tunnelPort: listenPort(9466, "Port of the tunnel. 0 selects a free port."),
});

/** Concurrent lookups of hosts. They use a separate connection, so that clients do not delay the leader's requests. */
const MAX_REQUESTS = 4;

export const tunnel: Option<typeof tunnelConfigSchema.shape> = {
  shape: tunnelConfigSchema.shape,
  start: async ({ tunnel: isOn, tunnelAddress: address, tunnelPort: port }, ports) => {
    if (isOn && ports.isDryRun !== true)
      startTunnel({ ...ports, client: await ports.connectApart(MAX_REQUESTS), address, port });
    return {};
  },
};
