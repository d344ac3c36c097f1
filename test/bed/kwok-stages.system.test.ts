import { afterAll, beforeAll, expect, test } from "vitest";
import { llamacppPod } from "../../src/engines/llamacpp/pod.ts";
import { connect } from "../../src/kube/client/connect.ts";
import { PODS } from "../../src/kube/kinds.ts";
import { systemClock } from "../../src/kube/system-clock.ts";
import { startReflector } from "../../src/kube/watch/reflector.ts";
import { oneRealCluster } from "../cluster/node.ts";
import { quietLog } from "../cluster/quiet-log.ts";
import { describeUnless } from "./describe-unless.ts";
import { listOf } from "./kubectl.ts";
import { startKwok, whyNoSimulatedNodes } from "./kwok.ts";
import { type PodScript, scriptAnnotations } from "./kwok-stages.ts";
import { whyNoRealNode } from "./node/parts.ts";
import { until } from "./until.ts";

/**
 * The same pod twice: what it does on a real node, and the script that kwok gets for it. An eviction is left out: kubelet
 * takes up to a minute to see that a volume exceeds its limit.
 */
interface Pair {
  readonly spec: object;
  readonly script: PodScript;
}

const LONG = "sleep 1000";
const FAILS = "printf bad > /dev/termination-log; exit 3";
const GROWS = "sleep 1; exec tail /dev/zero";
const SMALL = { resources: { limits: { memory: "20Mi" } } };
const NEVER = { exec: { command: ["/usr/bin/false"] }, periodSeconds: 1 };
const failed = { exitCode: 3, message: "bad" };
const once = { restartPolicy: "Never" };

const PAIRS: Readonly<Record<string, Pair>> = {
  ready: { spec: { initContainers: [init("exit 0")], containers: [main(LONG)] }, script: {} },
  complete: {
    spec: { ...once, containers: [main("sleep 1; printf done > /dev/termination-log")] },
    script: { outcome: "complete", message: "done" },
  },
  fail: {
    spec: { ...once, containers: [main(`sleep 1; ${FAILS}`)] },
    script: { outcome: "fail", ...failed },
  },
  "killed-for-memory": {
    spec: { ...once, containers: [main(GROWS, SMALL)] },
    script: { outcome: "fail", exitCode: 137 },
  },
  crash: { spec: { containers: [main(FAILS)] }, script: { outcome: "crash", ...failed } },
  "crash-of-memory": {
    spec: { containers: [main(GROWS, SMALL)] },
    script: { outcome: "crash", exitCode: 137 },
  },
  "never-ready": {
    spec: { containers: [main(LONG, { readinessProbe: NEVER })] },
    script: { outcome: "never-ready" },
  },
  "never-started": {
    spec: { containers: [main(LONG, { startupProbe: { ...NEVER, failureThreshold: 1_000 } })] },
    script: { outcome: "never-ready" },
  },
  "image-pull": {
    spec: { containers: [{ name: "main", image: "registry.invalid/none:1" }] },
    script: { outcome: "image-pull" },
  },
  "init-crash": {
    spec: { initContainers: [init(FAILS)], containers: [main(LONG)] },
    script: { outcome: "init-crash", ...failed },
  },
  "init-crash-of-memory": {
    spec: { initContainers: [init(GROWS, SMALL)], containers: [main(LONG)] },
    script: { outcome: "init-crash", exitCode: 137 },
  },
};

describeUnless(whyNoRealNode() ?? whyNoSimulatedNodes(), "kwok beside a real node", () => {
  const shared = oneRealCluster({ crds: false });
  /** Statuses that the pod `<name>-<node>` has had, in order. */
  const seen = new Map<string, readonly string[]>();
  const stack = new AsyncDisposableStack();
  const of = (name: string, node: string) => seen.get(`default/${name}-${node}`) ?? [];

  beforeAll(async () => {
    const { kubeconfig, kubectl, dir } = shared();
    const connection = stack.adopt(await connect({ kubeconfigPath: kubeconfig }), (open) => open.close());
    const ending = stack.adopt(new AbortController(), (controller) => controller.abort());
    startReflector({
      connection,
      clock: systemClock,
      log: quietLog,
      signal: ending.signal,
      kind: PODS,
      namespace: "default",
      onChange: (key, pod) => {
        const status = pod?.status as PodStatus | undefined;
        if (!isInTheEnd(key, status)) return;
        const shape = JSON.stringify(shapeOf(status), null, 1);
        const before = seen.get(key) ?? [];
        if (before.at(-1) !== shape) seen.set(key, [...before, shape]);
      },
      onListed: () => {},
    });
    const simulated = { "test.dev/by": "kwok" };
    const kwok = stack.use(
      await startKwok({ kubeconfig, dir: `${dir}/kwok`, nodeSelector: "test.dev/by=kwok" }),
    );
    await kwok.add({ name: "simulated", labels: simulated });
    const items = Object.entries(PAIRS).flatMap(([name, pair]) => [
      podOf(`${name}-real`, "node-1", pair),
      podOf(`${name}-kwok`, "simulated", pair),
    ]);
    await until(() => kubectl(["get", "serviceaccount", "default"]));
    await kubectl(["create", "-f", "-"], listOf(...items));
  });
  afterAll(() => stack.disposeAsync());

  test.concurrent.each(Object.keys(PAIRS))(
    "%s: what kwok shows in the end, a kubelet has shown too",
    async (name) => {
      await until(() => {
        const [real, shown] = [of(name, "real"), of(name, "kwok").at(-1)];
        expect(real, `kwok: ${shown}\nreal: ${real.join("\n")}`).toContain(shown);
      });
    },
  );
});

interface ContainerState {
  readonly reason?: string;
  readonly exitCode?: number;
  readonly message?: string;
}

interface ContainerStatus {
  readonly name: string;
  readonly ready: boolean;
  readonly started?: boolean;
  readonly restartCount: number;
  readonly state?: Readonly<Record<string, ContainerState>>;
  readonly lastState?: Readonly<Record<string, ContainerState>>;
}

interface PodStatus {
  readonly phase?: string;
  readonly reason?: string;
  readonly conditions?: readonly {
    readonly type: string;
    readonly status: string;
    readonly reason?: string;
  }[];
  readonly initContainerStatuses?: readonly ContainerStatus[];
  readonly containerStatuses?: readonly ContainerStatus[];
}

/** kwok takes its pods through other statuses first, and notes which one they have reached. */
function isInTheEnd(key: string, status: PodStatus = {}): boolean {
  const name = /^default\/(.+)-kwok$/.exec(key)?.[1];
  if (name === undefined) return true;
  const reached = status.conditions?.find(({ type }) => type.endsWith("/reached"))?.reason;
  return reached === (PAIRS[name]?.script.outcome ?? "ready");
}

/** The part of a status that kwok and a kubelet can share: without times, addresses, identities and kubelet's wording. */
function shapeOf(status: PodStatus = {}): object {
  const conditions = (status.conditions ?? [])
    .filter(({ type }) => !type.includes("metalbridge.dev/"))
    .map(({ type, status, reason = "" }) => `${type}=${status} ${reason}`.trim());
  return {
    phase: status.phase,
    reason: status.reason,
    conditions: conditions.sort(),
    init: (status.initContainerStatuses ?? []).map(containerShape),
    main: (status.containerStatuses ?? []).map(containerShape),
  };
}

function containerShape({ name, ready, started, restartCount, state, lastState }: ContainerStatus) {
  return { name, ready, started, isRestarted: restartCount > 0, ...stateShapes({ state, lastState }) };
}

function stateShapes(states: Readonly<Record<string, ContainerStatus["state"]>>) {
  const shape = ([kind, { reason, exitCode, message }]: readonly [string, ContainerState]) =>
    [kind, reason, exitCode, kind === "terminated" ? message : undefined].filter(Boolean).join(" ");
  const one = (state: ContainerStatus["state"]) =>
    Object.entries(state ?? {})
      .map(shape)
      .join();
  return Object.fromEntries(Object.entries(states).map(([name, state]) => [name, one(state)]));
}

function podOf(name: string, nodeName: string, { spec, script }: Pair): object {
  const metadata = { name, annotations: scriptAnnotations({ outcome: "ready", ...script }) };
  const nodeSelector = { "kubernetes.io/hostname": nodeName };
  const common = { nodeSelector, terminationGracePeriodSeconds: 1 };
  return { apiVersion: "v1", kind: "Pod", metadata, spec: { ...common, ...spec } };
}

function main(script: string, more: object = {}): object {
  const image = llamacppPod.images.cpu;
  return { name: "main", image, command: ["/usr/bin/dash", "-c", script], ...more };
}

function init(script: string, more: object = {}): object {
  return main(script, { name: "init", ...more });
}
