/** etcd on Unix sockets in a private folder, so that only this user can read the Secrets of the cluster. */
import type { ClusterParts } from "../parts.ts";
import type { ControlPlaneLayout } from "../state/layout.ts";
import type { Component } from "./component.ts";

/** Relative to the working folder of etcd and the API server. */
export const ETCD_SOCKET = "etcd.sock";
const PEER_SOCKET = "peer.sock";

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
