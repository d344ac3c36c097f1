/** kube-scheduler, for tests with pods. A local control plane has no nodes. */
import type { ClusterParts } from "../parts.ts";
import type { ControlPlaneLayout } from "../state/layout.ts";
import type { Component } from "./component.ts";

/** Undefined if the program is not installed; the archives of envtest lack it. */
export function describeScheduler(parts: ClusterParts, layout: ControlPlaneLayout): Component | undefined {
  if (parts.kubeScheduler === undefined) return undefined;
  return {
    name: "kube-scheduler",
    program: parts.kubeScheduler,
    args: [
      `--kubeconfig=${layout.schedulerKubeconfig}`,
      "--leader-elect=false",
      // No listener: a running process counts as healthy.
      "--secure-port=0",
      // The limits of the API server are sufficient on one machine.
      "--kube-api-qps=500",
      "--kube-api-burst=1000",
      "--profiling=false",
    ],
    env: {},
    cwd: layout.run,
    logFile: layout.log("kube-scheduler"),
    graceMs: 3_000,
    orphanGraceMs: 600,
  };
}
