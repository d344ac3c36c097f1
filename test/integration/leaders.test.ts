/**
 * Controllers that take over from each other in the middle of their work: nodes and kubelets are kwok's.
 *
 * CPU: three controllers in turn on a cluster with pods, where each of twenty services has a Deployment.
 */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { afterAll, beforeAll, expect, it } from "vitest";
import { INFERENCE_SERVICES } from "../../src/api/kinds.ts";
import { DEPLOYMENTS } from "../../src/kube/kinds.ts";
import type { Pod } from "../../src/kube/workload-objects.ts";
import { describeUnless } from "../bed/describe-unless.ts";
import { giveControllerIdentity } from "../bed/identity.ts";
import { whyNoSimulatedNodes } from "../bed/kwok.ts";
import { model } from "../bed/manifests.ts";
import { type Part, startPart } from "../bed/part.ts";
import { NAMESPACE } from "../bed/services.ts";
import { startFleet, type TestFleet } from "../bed/test-fleet.ts";
import { until } from "../bed/until.ts";
import { type LinuxCluster, startLinuxCluster } from "../cluster/linux-cluster.ts";
import { writeTinyGguf } from "../fixtures/tiny-gguf.ts";
import { startBadOrigin } from "./bad-origin.ts";

const MINUTE = 60_000;
/** Services of each batch: enough that a leader ends in the middle of its work. */
const SERVICES = 20;
const CONTROLLER_ARGS = ["--allow-loopback", "--image", "registry.example.com/metalbridge:1.0.0"];
const CONTROLLER = "system:serviceaccount:metalbridge-system:metalbridge-controller";

describeUnless(whyNoSimulatedNodes(), "several controllers", () => {
  const stack = new AsyncDisposableStack();
  const dir = mkdtempSync(path.join(tmpdir(), "metalbridge-leaders-"));
  const auditLog = path.join(dir, "audit.log");
  let cluster: LinuxCluster;
  let farm: TestFleet;

  beforeAll(async () => {
    stack.defer(() => rmSync(dir, { recursive: true, force: true }));
    cluster = stack.use(
      await startLinuxCluster([{ name: "cpu-1" }, { name: "cpu-2" }], { apiServerArgs: auditArgs() }),
    );
    const { kubeconfig } = cluster;
    farm = stack.use(await startFleet({ kubeconfig, agents: [], controllerArgs: CONTROLLER_ARGS }));
    const file = path.join(dir, "tiny.gguf");
    await writeTinyGguf(file);
    const origin = stack.use(await startBadOrigin(readFileSync(file), 0));
    await apply(model("chat", `${origin.url}/good.gguf`, { hardware: { accelerator: "cpu" } }, NAMESPACE));
  });

  afterAll(() => stack.disposeAsync());

  const apply = (...items: readonly object[]) => farm.objects.apply(...items);

  it(
    "the next of several controllers finishes what a leader has begun, and no object is written by two",
    async () => {
      const startNext = async (name: string): Promise<Part> => {
        const kubeconfig = path.join(dir, `${name}.kubeconfig`);
        await giveControllerIdentity(cluster, kubeconfig);
        const flags = [
          "--kubeconfig",
          kubeconfig,
          "--health-port",
          "0",
          "--benchmarks",
          "Off",
          ...CONTROLLER_ARGS,
        ];
        const next = stack.use(startPart(["controller", ...flags], path.join(dir, `${name}.log`)));
        await until(() => expect(next.log()).toContain('"msg":"controller started"'));
        return next;
      };
      /** Resolves while the first objects of its services are made; `end` applies the last of them. */
      const begin = async (batch: string) => {
        const applied = apply(
          ...Array.from({ length: SERVICES - 1 }, (_, index) => small(`${batch}-${index}`)),
        );
        const hasBegun = async () => expect((await deploymentsOf(batch)).length).toBeGreaterThan(2);
        await until(hasBegun, { everyMs: 5 });
        return {
          end: async () => {
            await applied;
            await apply(small(`${batch}-last`));
          },
        };
      };
      const deploymentsOf = async (batch: string) =>
        ((await farm.objects.list(DEPLOYMENTS)) as readonly Pod[]).filter(({ metadata }) =>
          metadata.name.startsWith(`${batch}-`),
        );
      const untilAllReady = (batch: string) =>
        until(
          async () => {
            const all = (await farm.objects.list(INFERENCE_SERVICES)) as readonly Listed[];
            const those = all.filter(({ metadata }) => metadata.name.startsWith(`${batch}-`));
            expect(those.filter(({ status }) => status?.phase !== "Ready")).toEqual([]);
            expect(those).toHaveLength(SERVICES);
          },
          { timeoutMs: 3 * MINUTE, everyMs: 250 },
        );

      // Otherwise the second may lead from the beginning.
      await until(() => expect(farm.controller().log()).toContain('"msg":"working"'));
      const second = await startNext("second");
      const killed = await begin("killed");
      await farm.controller().kill("SIGKILL");
      await killed.end();
      await untilAllReady("killed");

      // One that has slept does not know yet that it leads no more.
      const third = await startNext("third");
      const slept = await begin("slept");
      process.kill(second.pid, "SIGSTOP");
      await slept.end();
      await untilAllReady("slept");
      process.kill(second.pid, "SIGCONT");
      await until(() => expect(second.log()).toContain('"msg":"no longer leading"'));
      expect(third.log()).toContain('"msg":"working"');

      const writes = writesOf(readFileSync(auditLog, "utf8"));
      expect(new Set(writes.map(({ by }) => by)).size).toBe(3);
      const writers = new Map<string, Set<string>>();
      for (const { by, object, isStatus } of writes)
        if (!isStatus) writers.set(object, (writers.get(object) ?? new Set()).add(by));
      expect([...writers].filter(([, all]) => all.size > 1)).toEqual([]);
      const order = writes.map(({ by }) => by).filter((by, index, all) => by !== all[index - 1]);
      expect(order).toHaveLength(3);
    },
    8 * MINUTE,
  );

  /** Only what a controller writes. */
  function auditArgs(): readonly string[] {
    const policy = path.join(dir, "audit-policy.json");
    const omitStages = ["RequestReceived", "ResponseStarted"];
    const verbs = ["create", "update", "patch", "delete"];
    const rules = [{ level: "Metadata", users: [CONTROLLER], verbs, omitStages }, { level: "None" }];
    writeFileSync(policy, JSON.stringify({ apiVersion: "audit.k8s.io/v1", kind: "Policy", rules }));
    return [`--audit-policy-file=${policy}`, `--audit-log-path=${auditLog}`];
  }
});

/** A pod without weights, ready as soon as it is bound. */
function small(name: string): object {
  return {
    apiVersion: "metalbridge.dev/v1alpha1",
    kind: "InferenceService",
    metadata: { name, namespace: NAMESPACE },
    spec: {
      modelRef: "chat",
      runtime: "generic",
      image: "registry.example.com/engine:1",
      skipModelInit: true,
      placement: { on: "Pods" },
      resources: { cpu: "10m", memory: "16Mi" },
    },
  };
}

interface Listed {
  readonly metadata: { readonly name: string };
  readonly status?: { readonly phase?: string };
}

interface Write {
  /** The credential, of which each controller has its own. */
  readonly by: string;
  readonly object: string;
  readonly isStatus: boolean;
}

const NO_WRITES = new Set(["events", "leases", "selfsubjectaccessreviews"]);

/** Without Events and the leader's Lease, in the order in which they were answered. */
function writesOf(log: string): readonly Write[] {
  // The API server may be writing the last line.
  return log
    .slice(0, log.lastIndexOf("\n") + 1)
    .split("\n")
    .filter((line) => line !== "")
    .map((line) => JSON.parse(line) as Audited)
    .filter(({ objectRef, responseStatus }) => {
      return !NO_WRITES.has(objectRef.resource) && responseStatus.code < 300;
    })
    .map(({ user, objectRef: { resource, name, subresource } }) => ({
      by: user.extra["authentication.kubernetes.io/credential-id"]?.[0] ?? "",
      object: `${resource}/${name}`,
      isStatus: subresource === "status",
    }));
}

interface Audited {
  readonly user: { readonly extra: Readonly<Record<string, readonly string[]>> };
  readonly objectRef: { readonly resource: string; readonly name: string; readonly subresource?: string };
  readonly responseStatus: { readonly code: number };
}
