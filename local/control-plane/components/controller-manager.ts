/** kube-controller-manager: garbage collection, namespaces, service accounts, Deployments and the rest. */
import type { ClusterParts } from "../parts.ts";
import type { ControlPlaneLayout } from "../state/layout.ts";
import type { Component } from "./component.ts";

/** Pure; undefined where the program is not installed (envtest's archives lack it). */
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
      // No listener of its own: health is seen by its being alive.
      "--secure-port=0",
      "--use-service-account-credentials=true",
      // By default 20 requests a second: with 2,000 Deployments it would be minutes behind.
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
