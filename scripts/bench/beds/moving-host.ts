/** One host in a network of its own, whose addresses can be changed under its agent; control plane and controller stay outside. */
import { API_VERSION } from "../../../src/api/group.ts";
import type { Host } from "../../../src/api/host.ts";
import { HOSTS } from "../../../src/api/kinds.ts";
import { openNetwork } from "../../../test/bed/network.ts";
import { run } from "../../../test/bed/run.ts";
import { addFleet, type Bed, disposedOnFailure } from "./bed.ts";
import { expectOk, openPlane } from "./plane.ts";

export interface MovingHost extends Bed {
  /** Its first address, and another one of the same network. */
  readonly addresses: readonly [string, string];
  /** One command of `ip` in the host's network per entry, all by one process. */
  readonly ip: (commands: readonly string[]) => Promise<void>;
  /** This machine's side: the API server is there. */
  readonly gateway: string;
}

const NAME = "mac-on-the-move";

/** Controller and agent run, Host and Model are ready. The agent finds its address by the route to the API server. */
export async function openMovingHost(): Promise<MovingHost> {
  const network = await openNetwork([NAME]);
  const plane = await openPlane({ bindAddress: network.gateway }).catch(async (error: unknown) => {
    await network[Symbol.asyncDispose]();
    throw error;
  });
  plane.atEnd(async () => network[Symbol.asyncDispose]());
  return disposedOnFailure(plane, async () => {
    const spec = { addresses: [network.cidr] };
    const host = { apiVersion: API_VERSION, kind: "Host", metadata: { name: NAME }, spec };
    expectOk(await plane.client.create(HOSTS, host as unknown as Host));
    const { address, inside, namespace } = network.station(NAME);
    const launcher = [...inside, process.execPath];
    const bed = await addFleet(plane, { agents: [{ hostName: NAME, launcher }] });
    return {
      ...bed,
      gateway: network.gateway,
      addresses: [address, address.replace(/\d+$/, "102")],
      ip: async (commands) => {
        await run("ip", ["-n", namespace, "-batch", "-"], `${commands.join("\n")}\n`);
      },
    };
  });
}
