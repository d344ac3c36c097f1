/** etcd on unix sockets in a private folder: no port, and only this user can read the cluster's secrets from it. */
import type { ClusterParts } from "../parts.ts";
import type { ControlPlaneLayout } from "../state/layout.ts";
import type { Component } from "./component.ts";

/** Relative to the working folder that etcd and the API server share. */
export const ETCD_SOCKET = "etcd.sock";
const PEER_SOCKET = "peer.sock";

/** Pure: arguments of the one etcd member. */
export function describeEtcd(
  parts: ClusterParts,
  layout: ControlPlaneLayout,
  options: { readonly fsync: boolean },
): Component {
  const client = `unix://${ETCD_SOCKET}`;
  const peer = `unix://${PEER_SOCKET}`;
  return {
    name: "etcd",
    program: parts.etcd,
    args: [
      "--name=metalbridge",
      `--data-dir=${layout.etcdData}`,
      `--listen-client-urls=${client}`,
      `--advertise-client-urls=${client}`,
      `--listen-peer-urls=${peer}`,
      `--initial-advertise-peer-urls=${peer}`,
      `--initial-cluster=metalbridge=${peer}`,
      "--auto-compaction-retention=1",
      "--quota-backend-bytes=2147483648",
      "--log-level=warn",
      ...(options.fsync ? [] : ["--unsafe-no-fsync"]),
    ],
    env: {},
    cwd: layout.run,
    logFile: layout.log("etcd"),
    graceMs: 5_000,
    orphanGraceMs: 5_000,
  };
}
