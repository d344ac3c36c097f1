/** kube-scheduler, for tests of what becomes pods: an embedded control plane has no nodes. */
import type { ClusterParts } from "../parts.ts";
import type { ControlPlaneLayout } from "../state/layout.ts";
import type { Component } from "./component.ts";

/** Pure; undefined where the program is not installed (envtest's archives lack it). */
export function describeScheduler(parts: ClusterParts, layout: ControlPlaneLayout): Component | undefined {
  if (parts.kubeScheduler === undefined) return undefined;
  return {
    name: "kube-scheduler",
    program: parts.kubeScheduler,
    args: [
      `--kubeconfig=${layout.schedulerKubeconfig}`,
      "--leader-elect=false",
      // No listener of its own: health is seen by its being alive.
      "--secure-port=0",
      // One machine: the API server's own limits hold back a fleet of pods well enough.
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
