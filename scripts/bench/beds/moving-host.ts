/** One host in a network of its own, whose addresses can be changed under its agent; control plane and controller stay outside. */
import { addHost } from "../../../test/bed/identity.ts";
import { openNetwork } from "../../../test/bed/network.ts";
import { run } from "../../../test/bed/run.ts";
import { addFleet, type Bed, openOn } from "./bed.ts";

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
  await using stack = new AsyncDisposableStack();
  const network = stack.use(await openNetwork([NAME]));
  const host = await openOn({ bindAddress: network.gateway }, async (plane) => {
    await addHost(plane.controlPlane, NAME, [network.cidr]);
    const { address, inside, namespace } = network.station(NAME);
    const launcher = [...inside, process.execPath];
    const bed = await addFleet(plane, { agents: [{ hostName: NAME, launcher }] });
    const ip: MovingHost["ip"] = async (commands) => {
      await run("ip", ["-n", namespace, "-batch", "-"], `${commands.join("\n")}\n`);
    };
    const addresses = [address, address.replace(/\d+$/, "102")] as const;
    return { ...bed, gateway: network.gateway, addresses, ip };
  });
  stack.use(host);
  const kept = stack.move();
  return { ...host, [Symbol.asyncDispose]: () => kept.disposeAsync() };
}
