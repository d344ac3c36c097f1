import { afterEach, beforeEach, expect, test } from "vitest";
import { oneLinuxCluster } from "../cluster/linux-cluster.ts";
import type { TestNamespace } from "../cluster/namespace.ts";
import { describeUnless } from "./describe-unless.ts";
import { whyNoSimulatedNodes } from "./kwok.ts";
import { type PodScript, scriptAnnotations } from "./kwok-stages.ts";
import { until } from "./until.ts";

const GPU = "nvidia.com/gpu";

describeUnless(whyNoSimulatedNodes(), "pods on simulated nodes", () => {
  const shared = oneLinuxCluster([
    { name: "cpu-1" },
    {
      name: "gpu-1",
      labels: { "nvidia.com/gpu.product": "H100" },
      taints: [{ key: GPU, value: "present", effect: "NoSchedule" }],
      capacity: { [GPU]: "2" },
    },
  ]);
  let namespace: TestNamespace;
  beforeEach(async () => {
    namespace = await shared().namespace();
  });
  afterEach(() => namespace[Symbol.asyncDispose]());

  const apply = (object: Readonly<Record<string, unknown>> & { readonly metadata: object }) =>
    shared().objects.apply({ ...object, metadata: { ...object.metadata, namespace: namespace.name } });
  const get = (what: string) => shared().objects.get(namespace.name, what);
  const annotate = (pod: string, annotations: object) =>
    shared().objects.patch(namespace.name, `pod/${pod}`, { metadata: { annotations } });
  const pods = async (app: string): Promise<readonly Pod[]> =>
    (await get("pods")).items.filter((pod: Pod) => pod.metadata.labels.app === app);

  test("a Deployment whose pods request GPUs becomes ready on the node that has them", async () => {
    await apply(deployment("chat", { gpus: 1, replicas: 2 }));
    await until(async () => expect((await get("deployment/chat")).status.readyReplicas).toBe(2));
    const found = await pods("chat");
    expect(found.map(({ spec }) => spec.nodeName)).toEqual(["gpu-1", "gpu-1"]);
    expect(new Set(found.map(({ status }) => status.podIP)).size).toBe(2);
  });

  test("the pod that is one too many stays pending: insufficient GPUs", async () => {
    await apply(deployment("chat", { gpus: 1, replicas: 3 }));
    await until(async () => {
      const waiting = (await pods("chat")).filter(({ status }) => status.phase === "Pending");
      expect(waiting).toHaveLength(1);
      expect(condition(waiting[0], "PodScheduled")).toMatchObject({
        status: "False",
        reason: "Unschedulable",
        message: expect.stringContaining(`Insufficient ${GPU}`),
      });
      expect((await get("deployment/chat")).status.readyReplicas).toBe(2);
    });
  });

  test("a pod of a higher PriorityClass preempts one of a lower", async () => {
    const high = { apiVersion: "scheduling.k8s.io/v1", kind: "PriorityClass", metadata: { name: "high" } };
    await shared().objects.apply({ ...high, value: 1_000 });
    await apply(deployment("low", { gpus: 2 }));
    await until(async () => expect((await get("deployment/low")).status.readyReplicas).toBe(1));
    await apply(deployment("high", { gpus: 1, priorityClassName: "high" }));
    await until(async () => {
      expect((await get("deployment/high")).status.readyReplicas).toBe(1);
      const [pod] = await pods("low");
      expect(condition(pod, "PodScheduled")?.message).toContain(`Insufficient ${GPU}`);
    });
  });

  test("a Job's pod completes, and leaves its message", async () => {
    await apply(job("fetch", { message: '{"bytes":42}' }));
    await until(async () => expect((await get("job/fetch")).status.succeeded).toBe(1));
    const [pod] = await pods("fetch");
    expect(pod?.status.containerStatuses[0]?.state.terminated).toMatchObject({
      exitCode: 0,
      message: '{"bytes":42}',
    });
  });

  test("a Job's pod fails with its exit code and message, also where another made the pod", async () => {
    const script: PodScript = { outcome: "fail", exitCode: 22, message: 'curl: (22) error: 404 "gone"' };
    await shared().nodes.direct(namespace.name, script, { app: "fetch" });
    await apply(job("fetch", {}));
    await until(async () => {
      const { conditions } = (await get("job/fetch")).status;
      expect(conditions.map(({ type }: { type: string }) => type)).toContain("Failed");
    });
    const [pod] = await pods("fetch");
    expect(pod?.status.containerStatuses[0]?.state.terminated).toMatchObject({
      exitCode: 22,
      message: script.message,
    });
  });

  test.each([
    ["crash", "Running", { waiting: { reason: "CrashLoopBackOff" } }],
    ["image-pull", "Pending", { waiting: { reason: "ImagePullBackOff" } }],
    ["never-ready", "Running", { running: {} }],
  ] as const)(
    "a pod with outcome %s is %s and not ready, and recovers without it",
    async (outcome, phase, state) => {
      await apply(deployment("chat", { script: { outcome } }));
      const name = await until(async () => {
        const [pod] = await pods("chat");
        expect(pod?.status).toMatchObject({ phase, containerStatuses: [{ ready: false, state }] });
        expect(condition(pod, "Ready")?.status).toBe("False");
        return pod?.metadata.name ?? "";
      });
      await annotate(name, { "bed.metalbridge.dev/outcome": null });
      await until(async () => expect((await get("deployment/chat")).status.readyReplicas).toBe(1));
    },
  );

  test.each([
    ["kwok-shared", ["cpu-1", "gpu-1"]],
    ["kwok-local", ["cpu-1", "cpu-1"]],
  ])("a claim of class %s is bound, and pods run where its volume is", async (storageClassName, expected) => {
    const claim = { apiVersion: "v1", kind: "PersistentVolumeClaim", metadata: { name: "models" } };
    const resources = { requests: { storage: "100Gi" } };
    await apply({ ...claim, spec: { storageClassName, accessModes: ["ReadWriteOnce"], resources } });
    for (const [app, hostname] of [
      ["first", "cpu-1"],
      ["second", expected[1]],
    ] as const)
      await apply(
        deployment(app, { claimName: "models", nodeSelector: { "kubernetes.io/hostname": hostname ?? "" } }),
      );
    await until(async () => {
      expect((await get("pvc/models")).status.phase).toBe("Bound");
      const all = [...(await pods("first")), ...(await pods("second"))];
      expect(all.map(({ spec }) => spec.nodeName)).toEqual(expected);
    });
    await apply(
      deployment("third", { claimName: "models", nodeSelector: { "kubernetes.io/hostname": "gpu-1" } }),
    );
    await until(async () => {
      const [third] = await pods("third");
      if (storageClassName === "kwok-shared") expect(third?.spec.nodeName).toBe("gpu-1");
      else expect(condition(third, "PodScheduled")?.message).toContain("PersistentVolume's node affinity");
    });
  });

  test("an evicted pod is replaced", async () => {
    await apply(deployment("chat", {}));
    const name = await until(async () => {
      expect((await get("deployment/chat")).status.readyReplicas).toBe(1);
      return (await pods("chat"))[0]?.metadata.name ?? "";
    });
    await annotate(name, scriptAnnotations({ outcome: "evicted" }));
    await until(async () => {
      const found = await pods("chat");
      expect(found.find(({ metadata }) => metadata.name === name)?.status).toMatchObject({
        phase: "Failed",
        reason: "Evicted",
      });
      expect(found.filter((pod) => condition(pod, "Ready")?.status === "True")).toHaveLength(1);
    });
  });
});

interface Condition {
  readonly type: string;
  readonly status: string;
  readonly message?: string;
}

interface Pod {
  readonly metadata: { readonly name: string; readonly labels: Readonly<Record<string, string>> };
  readonly spec: { readonly nodeName?: string };
  readonly status: {
    readonly phase: string;
    readonly podIP?: string;
    readonly conditions?: readonly Condition[];
    readonly containerStatuses: readonly { readonly state: { readonly terminated?: object } }[];
  };
}

function condition(pod: Pod | undefined, type: string): Condition | undefined {
  return pod?.status.conditions?.find((one) => one.type === type);
}

interface PodsOptions {
  readonly gpus?: number;
  readonly priorityClassName?: string;
  readonly script?: PodScript;
  readonly claimName?: string;
  readonly nodeSelector?: Readonly<Record<string, string>>;
}

function template(app: string, { gpus = 0, script = {}, claimName, ...spec }: PodsOptions) {
  return {
    metadata: { labels: { app }, annotations: scriptAnnotations(script) },
    spec: {
      ...spec,
      volumes: claimName === undefined ? [] : [{ name: "models", persistentVolumeClaim: { claimName } }],
      terminationGracePeriodSeconds: 0,
      tolerations: [{ key: GPU, value: "present", effect: "NoSchedule" }],
      containers: [
        { name: "engine", image: "engine", resources: gpus === 0 ? {} : { limits: { [GPU]: String(gpus) } } },
      ],
    },
  };
}

function deployment(
  name: string,
  { replicas = 1, ...options }: PodsOptions & { readonly replicas?: number },
) {
  const spec = {
    replicas,
    selector: { matchLabels: { app: name } },
    template: template(name, options),
  };
  return { apiVersion: "apps/v1", kind: "Deployment", metadata: { name }, spec };
}

function job(name: string, script: PodScript) {
  const { metadata, spec } = template(name, { script });
  const pods = { metadata, spec: { ...spec, restartPolicy: "Never" } };
  return {
    apiVersion: "batch/v1",
    kind: "Job",
    metadata: { name },
    spec: { backoffLimit: 0, template: pods },
  };
}
