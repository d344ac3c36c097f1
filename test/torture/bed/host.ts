/** One host of the farm: a namespace with a small disk of its own, and the agent in it. */
import { mkdirSync, rmSync } from "node:fs";
import path from "node:path";
import { agentArgs } from "../../bed/agent.ts";
import { killEngines } from "../../bed/engines.ts";
import { giveIdentity } from "../../bed/identity.ts";
import type { Network, Station } from "../../bed/network.ts";
import type { Release } from "../../bed/release.ts";
import { run } from "../../bed/run.ts";
import { fill, unmount } from "./disk.ts";
import { type LinkState, moveAddress, setLink } from "./link.ts";
import { type ControlledPart, controlPart } from "./process-control.ts";

export interface TestHost {
  readonly name: string;
  readonly station: Station;
  readonly stateDir: string;
  readonly agent: ControlledPart;
  readonly address: () => string;
  readonly setLink: (state: LinkState) => Promise<void>;
  /** To the other one of its two addresses. */
  readonly moveAddress: () => Promise<{ readonly from: string; readonly to: string }>;
  /** Until nothing more can be written. */
  readonly fillDisk: () => void;
  readonly freeDisk: () => void;
  readonly dispose: () => Promise<void>;
}

export interface HostOptions {
  readonly name: string;
  readonly dir: string;
  readonly network: Network;
  /** An administrator's. */
  readonly kubeconfig: string;
  readonly apiPort: number;
  readonly release: Release;
  /** Of the agent: where its engine is. */
  readonly config: object;
}

const DISK = "size=96m";

/** The agent is not started yet. */
export async function prepareHost(options: HostOptions): Promise<TestHost> {
  const { name, network, apiPort } = options;
  const station = network.station(name);
  const dir = path.join(options.dir, name);
  const disk = path.join(dir, "disk");
  const stateDir = path.join(disk, "state");
  mkdirSync(disk, { recursive: true });
  await run("mount", ["-t", "tmpfs", "-o", DISK, "metalbridge-torture", disk]);
  mkdirSync(stateDir, { mode: 0o700 });
  const kubeconfig = path.join(dir, "kubeconfig");
  await giveIdentity(options, name, kubeconfig);
  const agent = agentOf(options, { dir, stateDir, kubeconfig, inside: station.inside });
  const ballast = path.join(disk, "ballast");
  let { address } = station;
  return {
    name,
    station,
    stateDir,
    agent,
    address: () => address,
    setLink: (state) => setLink(station, state, { gateway: network.gateway, port: apiPort }),
    moveAddress: async () => {
      const from = address;
      const last = Number(from.split(".").at(-1));
      const to = from.replace(/\d+$/, String(last < 100 ? last + 100 : last - 100));
      await moveAddress(station, from, to, network.gateway);
      address = to;
      return { from, to };
    },
    fillDisk: () => fill(ballast),
    freeDisk: () => rmSync(ballast, { force: true }),
    dispose: async () => {
      await agent.dispose();
      killEngines(stateDir);
      await unmount(disk);
    },
  };
}

function agentOf(
  { name, release, config }: HostOptions,
  place: Readonly<Record<"dir" | "stateDir" | "kubeconfig", string>> & { readonly inside: readonly string[] },
): ControlledPart {
  const ours = { ...config, disk: { reserve: "1Mi" } };
  const { kubeconfig, stateDir } = place;
  const args = agentArgs({ hostName: name, kubeconfig, stateDir, config: ours });
  return controlPart({ name: `agent-${name}`, dir: place.dir, args, inside: place.inside, release });
}
