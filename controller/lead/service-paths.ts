/** Creates the paths on which services run. The first is the default. */

import { createGroupsPath } from "../service/groups/path.ts";
import { createHostsPath } from "../service/hosts/path.ts";
import type { HostsPathPorts } from "../service/hosts/ports.ts";
import type { ServicePath } from "../service/path.ts";
import { createNoPodsPath } from "../service/pods/no-pods.ts";
import { createPodsPath } from "../service/pods/path.ts";
import type { PodsPorts } from "../service/pods/ports.ts";
import { createBothPath } from "../service/split/path.ts";

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
