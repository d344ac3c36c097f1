/** Creates the paths on which services run. The first is the default. */

import type { ServicePath } from "../frame/service/path.ts";
import { createHostsPath } from "../hosts/path.ts";
import type { HostsPathPorts } from "../hosts/ports.ts";
import { createGroupsPath } from "../pods/groups/path.ts";
import { createNoPodsPath } from "../pods/no-pods.ts";
import { createPodsPath } from "../pods/path.ts";
import type { PodsPorts } from "../pods/ports.ts";
import { createBothPath } from "../services/split/path.ts";

export function createPaths(
  hostsPorts: HostsPathPorts,
  podsPorts: PodsPorts,
): readonly [ServicePath, ...ServicePath[]] {
  const hosts = createHostsPath(hostsPorts);
  // Services with placement.on Auto then run on hosts, because their path does not exist.
  if (podsPorts.hostsOnly) return [hosts, createNoPodsPath(podsPorts)];
  const pods = createPodsPath(podsPorts);
  return [hosts, pods, createGroupsPath(podsPorts), createBothPath({ ...podsPorts, hosts, pods })];
}
