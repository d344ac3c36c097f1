/** When pods are replaced, from short cases. */
import { fileURLToPath } from "node:url";
import { inferenceServiceSchema } from "../../src/api/inference-service/index.ts";
import type { Deployment, Pod } from "../../src/kube/workload-objects.ts";
import { testGoldens } from "../../test/golden/golden.ts";
import { planPodsRollout, podsToProbe } from "./rollout.ts";
import { strategyOf } from "./workload/strategy.ts";

interface Case {
  readonly spec?: object;
  readonly now: string;
  /** Revision that the spec asks for. */
  readonly desired: string;
  readonly hasGPUs?: boolean;
  /** The Deployment; absent: there is none yet. */
  readonly current?: Templated & { readonly replicas?: number; readonly waitingSince?: string };
  readonly pods?: readonly (Templated & Partial<PodCase>)[];
}

interface Templated {
  readonly revision: string;
  readonly renewedAt?: string;
}

interface PodCase {
  readonly name: string;
  readonly created: string;
  readonly isReady: boolean;
  readonly isStarted: boolean;
  readonly isEnding: boolean;
  /** Absent: cannot be read. */
  readonly inFlight: number;
  readonly isUnsupported: boolean;
}

testGoldens(fileURLToPath(new URL("./golden", import.meta.url)), (given: Case) => {
  const { spec, now, desired, hasGPUs, current, pods = [] } = given;
  const nowMs = Date.parse(now);
  const service = inferenceServiceSchema.parse({
    metadata: { name: "chat" },
    spec: { modelRef: "m", ...spec },
  });
  const deployment = (
    metadata: object,
    fields: Pick<Deployment["spec"], "template" | "replicas">,
  ): Deployment => ({
    metadata: { name: "chat", ...metadata },
    spec: {
      selector: {},
      strategy: strategyOf({
        rollout: service.spec.rollout,
        replicas: service.spec.replicas,
        hasDevices: hasGPUs === true,
      }),
      ...fields,
    },
  });
  const resources = hasGPUs === true ? { limits: { "nvidia.com/gpu": "1" } } : {};
  const templated = (options: Templated) => ({
    ...made(options),
    spec: { containers: [{ name: "engine", image: "i", resources }] },
  });
  const input = {
    spec: service.spec,
    desired: deployment({}, { template: templated({ revision: desired }) }),
    current:
      current &&
      deployment(
        current.waitingSince === undefined
          ? {}
          : { annotations: { "metalbridge.dev/waiting-since": current.waitingSince } },
        { replicas: current.replicas ?? 1, template: templated(current) },
      ),
    pods: pods.map(podOf),
  };
  const inFlight = new Map(pods.map(({ name = "pod", inFlight }) => [name, inFlight] as const));
  const { deployment: applied, ...rest } = planPodsRollout(input, inFlight, nowMs);
  return {
    asks: podsToProbe(input, nowMs).map(({ metadata }) => metadata.name),
    applies: {
      ...applied.metadata.annotations,
      paused: applied.spec.paused ?? false,
      strategy: applied.spec.strategy,
      template: { ...applied.spec.template.metadata?.labels, ...applied.spec.template.metadata?.annotations },
    },
    ...rest,
  };
});

function made({ revision, renewedAt }: Templated) {
  return {
    metadata: {
      labels: { "metalbridge.dev/revision": revision },
      annotations: annotated("renewed-at", renewedAt),
    },
    spec: { containers: [] },
  };
}

const annotated = (name: string, value: string | undefined): Record<string, string> =>
  value === undefined ? {} : { [`metalbridge.dev/${name}`]: value };

function podOf(given: Templated & Partial<PodCase>): Pod {
  const { name = "pod", created, isReady = true, isStarted = true, isEnding, isUnsupported } = given;
  const { metadata, spec } = made(given);
  const probe = annotated("in-flight", isUnsupported === true ? undefined : "{}");
  return {
    metadata: {
      name,
      ...metadata,
      annotations: { ...metadata.annotations, ...probe },
      ...(created === undefined ? {} : { creationTimestamp: created }),
      ...(isEnding === true ? { deletionTimestamp: "2026-03-01T11:59:00Z" } : {}),
    },
    spec,
    status: {
      phase: "Running",
      conditions: [{ type: "Ready", status: isReady ? "True" : "False" }],
      containerStatuses: [{ name: "engine", started: isStarted }],
    },
  };
}
