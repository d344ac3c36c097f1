/** Which function does which fault. */
import type { FaultKind } from "../plan/catalog.ts";
import { apiCompaction, apiKill, apiStop } from "./cluster/api-server.ts";
import { kubeletStop, nodeCordon, nodeDrain, nodeKill, podDelete, podKill } from "./cluster/nodes.ts";
import type { Fault } from "./fault.ts";
import { diskFull } from "./host/disk-full.ts";
import { addressChange, leaseExpiry, networkCut, networkLossy, networkSlow } from "./host/network.ts";
import { engineKill } from "./process/engine-kill.ts";
import { enginePause, runnerPause } from "./process/engine-pause.ts";
import { gateKill } from "./process/gate-kill.ts";
import { envoyKill, gatewayDiskFull, gatewayKill, gatewayPause, keyRevoke } from "./process/gateway.ts";
import {
  agentClockStep,
  agentKill,
  agentPause,
  agentUpgrade,
  controllerClockStep,
  controllerKill,
  controllerPause,
} from "./process/part.ts";
import { shimKill, shimPause } from "./process/shim.ts";
import {
  badRevision,
  cordon,
  drain,
  newRevision,
  priorityChange,
  recreate,
  restart,
  scale,
} from "./spec/changes.ts";

export const FAULTS: Readonly<Record<FaultKind, Fault>> = {
  "engine-kill": engineKill,
  "engine-pause": enginePause,
  "runner-pause": runnerPause,
  "gate-kill": gateKill,
  "shim-kill": shimKill,
  "shim-pause": shimPause,
  "agent-kill": agentKill,
  "agent-pause": agentPause,
  "agent-upgrade": agentUpgrade,
  "agent-clock-step": agentClockStep,
  "controller-kill": controllerKill,
  "controller-pause": controllerPause,
  "controller-clock-step": controllerClockStep,
  "api-stop": apiStop,
  "api-kill": apiKill,
  "api-compaction": apiCompaction,
  "network-cut": networkCut,
  "network-slow": networkSlow,
  "network-lossy": networkLossy,
  "lease-expiry": leaseExpiry,
  "address-change": addressChange,
  "disk-full": diskFull,
  "new-revision": newRevision,
  "priority-change": priorityChange,
  scale,
  recreate,
  "bad-revision": badRevision,
  drain,
  cordon,
  "pod-kill": podKill,
  "pod-delete": podDelete,
  "node-kill": nodeKill,
  "kubelet-stop": kubeletStop,
  "node-cordon": nodeCordon,
  "node-drain": nodeDrain,
  "pods-restart": restart,
  "pods-revision": newRevision,
  "pods-scale": scale,
  "envoy-kill": envoyKill,
  "gateway-kill": gatewayKill,
  "gateway-pause": gatewayPause,
  "gateway-disk-full": gatewayDiskFull,
  "key-revoke": keyRevoke,
};
