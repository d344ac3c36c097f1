/** Every path on which services run, one line each; the first is the default. */
import type { ServicePath } from "../service/path.ts";
import { createBothPath } from "./both/path.ts";
import { createMacPath } from "./mac/path.ts";
import type { MacPorts } from "./mac/ports.ts";
import { createNoPodsPath } from "./pods/no-pods.ts";
import { createPodsPath } from "./pods/path.ts";
import type { PodsPorts } from "./pods/ports.ts";

/** What the paths work with, together. */
export type PathPorts = MacPorts & PodsPorts;

export function createPaths(ports: PathPorts): readonly [ServicePath, ...ServicePath[]] {
  const hosts = createMacPath(ports);
  // Services for either run on hosts then: no path of theirs is found.
  if (ports.hostsOnly) return [hosts, createNoPodsPath(ports)];
  const pods = createPodsPath(ports);
  return [hosts, pods, createBothPath({ ...ports, hosts, pods })];
}
