/** kube-apiserver with tokens, node authorization and RBAC, on one address. */
import type { ClusterParts } from "../parts.ts";
import type { ControlPlaneLayout } from "../state/layout.ts";
import type { Component } from "./component.ts";
import { ETCD_SOCKET } from "./etcd.ts";

export interface ApiServerOptions {
  readonly address: string;
  readonly port: number;
  /** Appended last, so that they override all other flags. */
  readonly moreArgs?: readonly string[] | undefined;
}

/** Issuer of service account tokens. It is no address, so that tokens stay valid after a change of the port. */
export const SERVICE_ACCOUNT_ISSUER = "https://kubernetes.default.svc";

export function describeApiServer(
  parts: ClusterParts,
  layout: ControlPlaneLayout,
  options: ApiServerOptions,
): Component {
  return {
    name: "kube-apiserver",
    program: parts.kubeApiserver,
    args: [
      `--etcd-servers=unix://${ETCD_SOCKET}`,
      `--bind-address=${options.address}`,
      // Without this flag, the API server does not start on a machine without a default route.
      `--advertise-address=${options.address}`,
      `--secure-port=${options.port}`,
      `--cert-dir=${layout.certificates(options.address)}`,
      // The Service `kubernetes` cannot have a loopback address and is not needed.
      "--endpoint-reconciler-type=none",
      "--service-cluster-ip-range=10.0.0.0/16",
      `--service-account-issuer=${SERVICE_ACCOUNT_ISSUER}`,
      `--service-account-key-file=${layout.serviceAccountPublicKey}`,
      `--service-account-signing-key-file=${layout.serviceAccountKey}`,
      `--token-auth-file=${layout.tokens}`,
      "--authorization-mode=Node,RBAC",
      "--allow-privileged=true",
      "--anonymous-auth=false",
      "--profiling=false",
      "--shutdown-delay-duration=0s",
      ...(options.moreArgs ?? []),
    ],
    env: {},
    cwd: layout.run,
    logFile: layout.log("kube-apiserver"),
    graceMs: 5_000,
    // A graceful stop hangs without etcd, which stops at the same time.
    orphanGraceMs: 600,
  };
}
