/** Every path on which services run, one line each; the first is the default. */

import { createHostsPath } from "../service/hosts/path.ts";
import type { HostsPathPorts } from "../service/hosts/ports.ts";
import type { ServicePath } from "../service/path.ts";
import { createNoPodsPath } from "../service/pods/no-pods.ts";
import { createPodsPath } from "../service/pods/path.ts";
import type { PodsPorts } from "../service/pods/ports.ts";
import { createBothPath } from "../service/split/path.ts";

/** What the paths work with, together. */
export type PathPorts = HostsPathPorts & PodsPorts;

export function createPaths(ports: PathPorts): readonly [ServicePath, ...ServicePath[]] {
  const hosts = createHostsPath(ports);
  // Services for either run on hosts then: no path of theirs is found.
  if (ports.hostsOnly) return [hosts, createNoPodsPath(ports)];
  const pods = createPodsPath(ports);
  return [hosts, pods, createBothPath({ ...ports, hosts, pods })];
}
