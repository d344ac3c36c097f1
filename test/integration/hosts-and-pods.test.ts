/** One service on hosts and in pods behind a real kube-proxy, and two controllers: nodes and kubelets are kwok's, what answers is real. */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { afterAll, beforeAll, describe, expect, it, vi } from "vitest";
import { INFERENCE_REPLICAS, INFERENCE_SERVICES, MODELS } from "../../src/api/kinds.ts";
import { DEPLOYMENTS, PODS } from "../../src/kube/kinds.ts";
import type { Container, Pod } from "../../src/kube/workload-objects.ts";
import { FIRST_TERM, STOP_SECONDS } from "../../src/linux/drain.ts";
import { ONE_THREAD } from "../bed/agent.ts";
import { type Farm, startFarm } from "../bed/farm.ts";
import { giveControllerIdentity } from "../bed/identity.ts";
import { whyNoSimulatedNodes } from "../bed/kwok.ts";
import { type PodScript, scriptAnnotations } from "../bed/kwok-stages.ts";
import { allKinds, lostOf, startClients } from "../bed/load/clients.ts";
import { canRunNodeNetwork, type NodeNetwork, startNodeNetwork } from "../bed/node-network.ts";
import { type Part, startPart } from "../bed/part.ts";
import { NAMESPACE, type Services, servicesOf } from "../bed/services.ts";
import { type LinuxCluster, startLinuxCluster } from "../cluster/linux-cluster.ts";
import { findLlamaServer } from "../fixtures/llama-server.ts";
import { runContainer } from "../fixtures/run-container.ts";
import { writeTinyGguf } from "../fixtures/tiny-gguf.ts";
import { startBadOrigin } from "./bad-origin.ts";

const can = canRunNodeNetwork();
const why = can.ok ? whyNoSimulatedNodes() : can.why;
const MINUTE = 60_000;
const within = { timeout: MINUTE, interval: 100 };
// A Job downloads the weights.
const SHARED = ["--cache-access-mode", "ReadWriteMany"];
const CONTROLLER_ARGS = ["--allow-loopback", "--image", "registry.example.com/metalbridge:1.0.0", ...SHARED];
const CONTROLLER = "system:serviceaccount:metalbridge-system:metalbridge-controller";
const ENGINE_PORT = 8080;

describe.skipIf(why !== undefined)(
  `Linux nodes beside hosts${why === undefined ? "" : ` (skipped: ${why})`}`,
  () => {
    const stack = new AsyncDisposableStack();
    const dir = mkdtempSync(path.join(tmpdir(), "metalbridge-both-"));
    const auditLog = path.join(dir, "audit.log");
    const disk = path.join(dir, "volume");
    let cluster: LinuxCluster;
    let network: NodeNetwork;
    let farm: Farm;
    let services: Services;
    let source: string;

    beforeAll(async () => {
      stack.defer(() => rmSync(dir, { recursive: true, force: true }));
      mkdirSync(disk);
      const model = path.join(dir, "endless.gguf");
      await writeTinyGguf(model, { endless: true, layers: 8, embeddingSize: 256, contextLength: 8192 });
      const origin = stack.use(await startBadOrigin(readFileSync(model), 0));
      source = `${origin.url}/good.gguf`;
      cluster = stack.use(
        await startLinuxCluster([{ name: "cpu-1" }, { name: "cpu-2" }], { apiServerArgs: auditArgs() }),
      );
      await cluster.nodes.direct(NAMESPACE, { outcome: "ready" }, { "metalbridge.dev/model": "chat" });
      network = stack.use(await startNodeNetwork(cluster, ["pod"]));
      const config = { disk: { reserve: 0 }, sources: { allowLoopback: true } };
      const { kubeconfig } = cluster;
      const agents = [{ hostName: "mac-1", config }];
      const options = { kubeconfig, address: network.hostAddress, agents, controllerArgs: CONTROLLER_ARGS };
      farm = stack.use(await startFarm(options));
      services = servicesOf(farm, network);
      await services.untilHostsReady();
    });

    afterAll(() => stack.disposeAsync());

    const apply = (...items: readonly object[]) =>
      farm.kubectl(["apply", "-f", "-"], {
        input: JSON.stringify({ apiVersion: "v1", kind: "List", items }),
      });
    const podsOf = async (label: string): Promise<readonly Pod[]> => await farm.reader.list(PODS, label);
    const direct = (pod: Pod, script: PodScript) => {
      const notes = Object.entries(scriptAnnotations(script)).map(([key, value]) => `${key}=${value}`);
      return farm.kubectl(["annotate", "--overwrite", "pod", pod.metadata.name, "-n", NAMESPACE, ...notes]);
    };
    const until = (name: string, status: object) =>
      vi.waitFor(async () => expect(await services.serviceStatus(name)).toMatchObject(status), within);

    /** Runs the download as a kubelet would: its result makes the Model Ready. */
    async function fetchWeights(): Promise<void> {
      const pod = await vi.waitFor(async () => {
        const [found] = await podsOf("metalbridge.dev/model=chat");
        if (found?.status?.phase !== "Running") throw new Error("the Job has no pod that runs");
        return found;
      }, within);
      const ended = await runContainer(containerOf(pod), { "/cache": disk }, {});
      expect(ended.exitCode, ended.message).toBe(0);
      await direct(pod, { outcome: "complete", message: ended.message });
      await vi.waitFor(
        async () => expect((await farm.reader.get(MODELS, "chat")).status.phase).toBe("Ready"),
        within,
      );
    }

    /** The container of a pod at the pod's address, which then is ready. `end` is what a kubelet does once the pod is deleted. */
    async function runPod(pod: Pod): Promise<{ readonly end: () => Promise<void> }> {
      const { inside, address } = network.station("pod");
      const container = containerOf(pod);
      const mount = container.volumeMounts?.find(({ mountPath }) => mountPath === "/models");
      const weights = path.join(disk, String(mount?.subPath ?? ""));
      const given = (container.args ?? []).map((text) => text.replace(/^\/models/, weights));
      const [enter = "", ...rest] = inside;
      const run = (command: readonly string[]): ChildProcess =>
        spawn(enter, [...rest, ...command], { stdio: "ignore" });
      const engine = run([findLlamaServer() ?? "", ...given]);
      stack.defer(() => void engine.kill("SIGKILL"));
      await vi.waitFor(async () => {
        expect((await fetch(`http://${address}:${ENGINE_PORT}/health`)).status).toBe(200);
      }, within);
      await direct(pod, { outcome: "ready" });
      const { exec } = (container.lifecycle as { preStop: { exec: { command: string[] } } }).preStop;
      return {
        end: async () => {
          const ended = once(engine, "close");
          // Here process 1 is that of the whole machine.
          const hook = exec.command.map((text) => text.replace(FIRST_TERM, `kill -TERM ${engine.pid}\n`));
          expect(await once(run(hook), "close")).toEqual([0, null]);
          engine.kill("SIGTERM");
          // llama-server answers no request that came since the hook's last reading, and waits for its client.
          const graceOver = setTimeout(() => engine.kill("SIGKILL"), STOP_SECONDS * 1_000);
          await ended;
          clearTimeout(graceOver);
        },
      };
    }

    async function newPod(): Promise<Pod> {
      return vi.waitFor(async () => {
        const pods = await podsOf("metalbridge.dev/service=chat");
        const [pod] = pods.filter(({ status }) => status?.podIP !== undefined);
        if (pod === undefined) throw new Error("no pod has an address");
        return pod;
      }, within);
    }

    const untilNoPod = () =>
      vi.waitFor(async () => expect(await podsOf("metalbridge.dev/service=chat")).toEqual([]), within);

    it(
      "hosts and pods serve one service together, and lose no request while one side takes over from the other and back",
      async () => {
        const apiVersion = "metalbridge.dev/v1alpha1";
        const metadata = { name: "chat", namespace: NAMESPACE };
        const { address } = network.station("pod");
        const spec = {
          ...{ modelRef: "chat", replicas: 2, contextSize: 8_192, parallelSlots: 4, promptCacheMiB: 0 },
          ...{ extraArgs: ONE_THREAD, rollout: { drainSeconds: 60 } },
          // There is one host.
          placement: { on: "Auto", spread: "Required" },
          podAnnotations: scriptAnnotations({ outcome: "never-ready", podIP: address }),
        };
        await apply(
          { apiVersion, kind: "Model", metadata, spec: { source, hardware: { accelerator: "metal" } } },
          { apiVersion, kind: "InferenceService", metadata, spec },
        );
        await fetchWeights();
        const first = await runPod(await newPod());
        await until("chat", { phase: "Ready", ready: "2/2" });
        await services.untilReady("chat");

        const url = `http://${await services.clusterIp("chat")}:8080`;
        await using clients = startClients(network.namespace, { url, clients: allKinds() });
        const replica = await services.replicaOf("chat");
        const engines = [`${network.hostAddress}:${replica.status.port}`, `${address}:${ENGINE_PORT}`];
        for (const engine of engines)
          await vi.waitFor(async () => expect(await answered(engine)).toBe(true), within);
        await clients.untilEachAsked(1);

        // Room returns on hosts.
        await farm.addAgent({
          hostName: "mac-2",
          config: { disk: { reserve: 0 }, sources: { allowLoopback: true } },
        });
        await untilNoPod();
        await first.end();
        await until("chat", { phase: "Ready", ready: "2/2" });
        expect(await farm.reader.list(INFERENCE_REPLICAS)).toHaveLength(2);
        await clients.untilEachAsked(1);

        await farm.kubectl(["patch", "mbhost/mac-2", "--type=merge", "-p", '{"spec":{"drain":true}}']);
        await runPod(await newPod());
        await farm.kubectl(["wait", "mbhost/mac-2", "--for=condition=Drained", "--timeout=60s"], {
          timeoutMs: 70_000,
        });
        await until("chat", { phase: "Ready", ready: "2/2" });
        await clients.untilEachAsked(1);

        // The reverse: the pod alone is enough.
        const change = { spec: { replicas: 1, placement: { prefer: "Pods" } } };
        await farm.kubectl([
          "patch",
          "isvc/chat",
          "-n",
          NAMESPACE,
          "--type=merge",
          "-p",
          JSON.stringify(change),
        ]);
        await vi.waitFor(async () => expect(await farm.reader.list(INFERENCE_REPLICAS)).toEqual([]), within);
        await until("chat", { phase: "Ready", ready: "1/1" });
        await clients.untilEachAsked(1);
        const asked = await clients.stop();
        expect(lostOf(asked)).toEqual([]);
        expect(asked.length).toBeGreaterThan(30);
      },
      6 * MINUTE,
    );

    it(
      "the next of several controllers finishes what a leader has begun, and no object is written by two",
      async () => {
        const startNext = async (name: string): Promise<Part> => {
          const kubeconfig = path.join(dir, `${name}.kubeconfig`);
          await giveControllerIdentity(cluster, kubeconfig);
          const flags = ["--kubeconfig", kubeconfig, "--health-port", "0", ...CONTROLLER_ARGS];
          const next = stack.use(startPart(["controller", ...flags], path.join(dir, `${name}.log`)));
          await vi.waitFor(() => expect(next.log()).toContain('"msg":"controller started"'), within);
          return next;
        };
        /** Resolves while the first objects of forty services are made; `end` applies the last of them. */
        const begin = async (batch: string) => {
          const applied = apply(...Array.from({ length: 39 }, (_, index) => small(`${batch}-${index}`)));
          const hasBegun = async () => expect((await deploymentsOf(batch)).length).toBeGreaterThan(2);
          await vi.waitFor(hasBegun, { timeout: MINUTE, interval: 5 });
          return {
            end: async () => {
              await applied;
              await apply(small(`${batch}-39`));
            },
          };
        };
        const deploymentsOf = async (batch: string) =>
          ((await farm.reader.list(DEPLOYMENTS)) as readonly Pod[]).filter(({ metadata }) =>
            metadata.name.startsWith(`${batch}-`),
          );
        const untilAllReady = (batch: string) =>
          vi.waitFor(
            async () => {
              const all = (await farm.reader.list(INFERENCE_SERVICES)) as readonly Listed[];
              const those = all.filter(({ metadata }) => metadata.name.startsWith(`${batch}-`));
              expect(those.filter(({ status }) => status?.phase !== "Ready")).toEqual([]);
              expect(those).toHaveLength(40);
            },
            { timeout: 3 * MINUTE, interval: 100 },
          );

        const second = await startNext("second");
        const killed = await begin("killed");
        await farm.controller().kill("SIGKILL");
        const killedAt = Date.now();
        await killed.end();
        await untilAllReady("killed");
        // The Lease lasts 15 s.
        expect(momentOf(second, "leading") - killedAt).toBeLessThan(45_000);

        // One that has slept does not know yet that it leads no more.
        const third = await startNext("third");
        const slept = await begin("slept");
        process.kill(second.pid, "SIGSTOP");
        await slept.end();
        await untilAllReady("slept");
        process.kill(second.pid, "SIGCONT");
        await vi.waitFor(() => expect(second.log()).toContain('"msg":"no longer leading"'), within);
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
  },
);

function containerOf({ spec }: Pod): Container {
  const [container] = spec.containers;
  if (container === undefined) throw new Error("a pod without a container");
  return container;
}

/** Has the engine generated anything? */
async function answered(address: string): Promise<boolean> {
  const text = await (await fetch(`http://${address}/metrics`)).text();
  return /^llamacpp:tokens_predicted_total [1-9]/m.test(text);
}

/** A pod without weights, ready as soon as it is bound. */
function small(name: string): object {
  return {
    apiVersion: "metalbridge.dev/v1alpha1",
    kind: "InferenceService",
    metadata: { name, namespace: NAMESPACE },
    spec: {
      ...{
        modelRef: "chat",
        runtime: "generic",
        image: "registry.example.com/engine:1",
        skipModelInit: true,
      },
      ...{ placement: { on: "Pods" }, resources: { cpu: "10m", memory: "16Mi" } },
    },
  };
}

interface Listed {
  readonly metadata: { readonly name: string };
  readonly status?: { readonly phase?: string };
}

/** Milliseconds since the epoch at which the part said so last. */
function momentOf(part: Part, message: string): number {
  const line = part
    .log()
    .split("\n")
    .findLast((one) => one.includes(`"msg":"${message}"`));
  return Date.parse(JSON.parse(line ?? "{}").time);
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
