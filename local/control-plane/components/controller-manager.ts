/** kube-controller-manager, for garbage collection, namespaces, service accounts and workloads. */
import type { ClusterParts } from "../parts.ts";
import type { ControlPlaneLayout } from "../state/layout.ts";
import type { Component } from "./component.ts";

/** Undefined if the program is not installed; the archives of envtest lack it. */
export function describeControllerManager(
  parts: ClusterParts,
  layout: ControlPlaneLayout,
  options: { readonly address: string; readonly moreArgs?: readonly string[] | undefined },
): Component | undefined {
  if (parts.kubeControllerManager === undefined) return undefined;
  return {
    name: "kube-controller-manager",
    program: parts.kubeControllerManager,
    args: [
      `--kubeconfig=${layout.controllerManagerKubeconfig}`,
      "--leader-elect=false",
      // No listener: a running process counts as healthy.
      "--secure-port=0",
      "--use-service-account-credentials=true",
      // With the default of 20 requests per second, it would be minutes behind with 2,000 Deployments.
      "--kube-api-qps=500",
      "--kube-api-burst=1000",
      `--service-account-private-key-file=${layout.serviceAccountKey}`,
      `--root-ca-file=${layout.certificates(options.address)}/apiserver.crt`,
      "--profiling=false",
      ...(options.moreArgs ?? []),
    ],
    env: {},
    cwd: layout.run,
    logFile: layout.log("kube-controller-manager"),
    graceMs: 3_000,
    orphanGraceMs: 600,
  };
}
