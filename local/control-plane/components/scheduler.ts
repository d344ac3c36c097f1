/** kube-scheduler, for tests with pods. A local control plane has no nodes. */
import { parse } from "yaml";
import { z } from "zod";
import { MetalbridgeError } from "../../../src/api/errors.ts";
import { errorMessage } from "../../../src/util/error-message.ts";
import { canonicalJson, hash } from "../../../src/util/hash.ts";
import type { ClusterParts } from "../parts.ts";
import type { ControlPlaneLayout } from "../state/layout.ts";
import type { Component } from "./component.ts";

/** A KubeSchedulerConfiguration, for example with extenders. */
export type SchedulerConfig = Readonly<Record<string, unknown>>;

const schedulerConfigSchema = z.looseObject({
  apiVersion: z.string().startsWith("kubescheduler.config.k8s.io/"),
  kind: z.literal("KubeSchedulerConfiguration"),
});

/** `file` is for the message. Throws SchedulerConfigInvalid. */
export function parseSchedulerConfig(text: string, file: string): SchedulerConfig {
  try {
    return schedulerConfigSchema.parse(parse(text));
  } catch (cause) {
    const why = cause instanceof z.ZodError ? "is no KubeSchedulerConfiguration" : errorMessage(cause);
    throw new MetalbridgeError("SchedulerConfigInvalid", `${file}: ${why}`, undefined, { cause });
  }
}

/** Equal for equal configurations, whatever their order or their comments. */
export function digestOf(config: SchedulerConfig | undefined): string | undefined {
  return config && hash(canonicalJson(config));
}

/** With a configuration, kube-scheduler ignores the flags for the same settings. */
export function renderSchedulerConfig(config: SchedulerConfig, layout: ControlPlaneLayout): string {
  const clientConnection = { kubeconfig: layout.schedulerKubeconfig, qps: QPS, burst: BURST };
  const leaderElection = { leaderElect: false };
  return JSON.stringify({ ...config, clientConnection, leaderElection, enableProfiling: false });
}

/** The limits of the API server are sufficient on one machine. */
const [QPS, BURST] = [500, 1_000];

/** Undefined if the program is not installed; the archives of envtest lack it. */
export function describeScheduler(
  parts: ClusterParts,
  layout: ControlPlaneLayout,
  options: { readonly hasConfig: boolean } = { hasConfig: false },
): Component | undefined {
  if (parts.kubeScheduler === undefined) return undefined;
  return {
    name: "kube-scheduler",
    program: parts.kubeScheduler,
    args: [
      `--kubeconfig=${layout.schedulerKubeconfig}`,
      ...(options.hasConfig ? [`--config=${layout.schedulerConfig}`] : []),
      "--leader-elect=false",
      // No listener: a running process counts as healthy.
      "--secure-port=0",
      `--kube-api-qps=${QPS}`,
      `--kube-api-burst=${BURST}`,
      "--profiling=false",
    ],
    env: {},
    cwd: layout.run,
    logFile: layout.log("kube-scheduler"),
    graceMs: 3_000,
    orphanGraceMs: 600,
  };
}
