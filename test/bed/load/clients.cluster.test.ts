import { expect, test } from "vitest";
import { openNetwork, whyNoNetwork } from "../network.ts";
import { startClients } from "./clients.ts";

const why = whyNoNetwork();

test.skipIf(why !== undefined)(
  `clients that track connections can be stopped before they have tracked one ${why ?? ""}`,
  async () => {
    await using network = await openNetwork(["a"]);
    // Without a kube-proxy the kernel of the station tracks nothing.
    const { namespace } = network.station("a");
    const clients = startClients(namespace, {
      url: `http://${network.gateway}:9`,
      clients: [],
      tracks: true,
    });
    expect(await clients.stop()).toEqual([]);
  },
);
