/** Every check, in the order in which they are shown. */
import type { Check } from "./checks/check.ts";
import { clusterChecks } from "./checks/cluster.ts";
import { engineChecks } from "./checks/engines.ts";
import { fileChecks } from "./checks/files.ts";
import { gpuChecks } from "./checks/gpu.ts";
import { machineChecks } from "./checks/machine.ts";
import { memoryChecks } from "./checks/memory.ts";
import { networkChecks } from "./checks/network.ts";
import { powerChecks } from "./checks/power.ts";
import { serviceChecks } from "./checks/service.ts";
import { storageChecks } from "./checks/storage.ts";

export const checkGroups: readonly (readonly [title: string, checks: readonly Check[]])[] = [
  ["Machine", machineChecks],
  ["Power", powerChecks],
  ["Memory", memoryChecks],
  ["Storage", storageChecks],
  ["Network", networkChecks],
  ["Cluster", clusterChecks],
  ["Engines", engineChecks],
  ["GPU", gpuChecks],
  ["Service", serviceChecks],
  ["Files", fileChecks],
];

export const allChecks: readonly Check[] = checkGroups.flatMap(([, checks]) => checks);
