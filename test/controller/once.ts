/**
 * A private cluster with the leader's parts and no leader: its passes run one at a time when a test says so, over what is
 * stored, by a clock that does not move. Nothing watches, polls or waits, and no order depends on the load of the machine.
 */
import path from "node:path";
import { afterAll, afterEach, beforeAll, beforeEach } from "vitest";
import { readCatalogFiles } from "../../cli/catalog/read.ts";
import { parseControllerConfig } from "../../controller/config.ts";
import { createControllerMetrics } from "../../controller/frame/metrics/metrics.ts";
import { assemble, type Leader, type LeadOptions } from "../../controller/lead/lead.ts";
import { startOptions } from "../../controller/options/registry.ts";
import { podsSettingsOf, probingOf } from "../../controller/pods/config.ts";
import { ruleLabelsOf } from "../../controller/services/objectives/config.ts";
import { routeSettingsOf } from "../../controller/services/routes/config.ts";
import { createFitness } from "../../fitness/fitness.ts";
import type { InferenceReplica } from "../../src/api/inference-replica.ts";
import type { InferenceService } from "../../src/api/inference-service/index.ts";
import { connect, type KubeConnection } from "../../src/kube/client/connect.ts";
import { createClient } from "../../src/kube/client/create-client.ts";
import type { EventInput } from "../../src/kube/event/series.ts";
import type { Recheck } from "../../src/kube/queue.ts";
import type { KubeClient } from "../../src/kube/types.ts";
import type { Log } from "../../src/util/ports.ts";
import { giveControllerIdentity } from "../bed/identity.ts";
import { type Objects, objectsOf } from "../bed/objects.ts";
import { type PrivateCluster, startCluster } from "../cluster/cluster.ts";
import { quietLog } from "../cluster/quiet-log.ts";
import { type ModelOptions, makeModel } from "./bench.ts";
import { createScriptedAgents, type ScriptedAgentOptions, type ScriptedAgents } from "./scripted-agents.ts";
import { createSnapshots, type Snapshots } from "./snapshots.ts";
import { createStandingClock, type SteppedClock } from "./stepped-clock.ts";
import { createSteppedQueues, type SteppedQueues } from "./stepped-queues.ts";

/** Passes over one key in one `settle`, of which the largest test needs a tenth. */
const MAX_PASSES = 200;
/** Hosts renew their Leases so often while time passes; they may be silent for twice as long. */
const RENEW_MS = 20_000;

export interface Once {
  readonly cluster: PrivateCluster;
  /** With the rights of an administrator, as `objects`. What others write, the controller sees after `restart`. */
  readonly client: KubeClient;
  readonly objects: Objects;
  readonly clock: SteppedClock;
  /** Registers hosts, or starts other agents on them, and settles. */
  readonly agents: (hosts: Readonly<Record<string, ScriptedAgentOptions>>) => Promise<void>;
  /** An agent of this host. */
  readonly agent: ScriptedAgents["of"];
  /** Runs what is due, lets the agents act, and repeats both until nothing changes any more. */
  readonly settle: () => Promise<void>;
  /** One pass over one key, whether it is due or not, over what is stored now. */
  readonly reconcile: (queue: string, key: string) => Promise<Recheck | undefined>;
  /** Time passes, in which agents renew their Leases; settles on the way. */
  readonly advance: (ms: number) => Promise<void>;
  /** Another controller takes over, and settles. `whileAway` runs when the last one is gone. */
  readonly restart: (whileAway?: () => Promise<unknown>) => Promise<void>;
  /** Calls it whenever the controller has seen changes, and once at the beginning. */
  readonly observe: (look: (leader: Leader) => void) => void;
  /** `Type Reason: note` of the Events about objects of this name. */
  readonly events: (about: string) => readonly string[];
  /** Creates a namespace with the Model `tiny`. */
  readonly namespace: (name: string, model?: ModelOptions) => Promise<string>;
  /** A Model whose source was read. */
  readonly model: (namespace: string, name: string, options?: ModelOptions) => Promise<void>;
  /** Applies the objects and settles. */
  readonly apply: (...objects: readonly object[]) => Promise<void>;
  /** As `objects.patch`, and settles. */
  readonly patch: (namespace: string, what: string, change: object) => Promise<void>;
  /** Deletes them and settles. Rejects if one is left then. */
  readonly remove: (namespace: string, ...what: readonly string[]) => Promise<void>;
  readonly service: (namespace: string, name: string) => Promise<InferenceService>;
  readonly replicas: (namespace: string) => Promise<readonly InferenceReplica[]>;
}

export interface OnceOptions {
  /** More of the controller. */
  readonly flags?: object;
  readonly log?: Log;
}

/**
 * One control plane for the tests of a file or `describe`, which stores the same at the beginning of each of them. The
 * controller runs without pods, as with `hostsOnly`.
 */
export function oneOnce(options: OnceOptions = {}): () => Once {
  let plane: Plane | undefined;
  let once: Awaited<ReturnType<typeof startOnce>> | undefined;
  beforeAll(async () => {
    plane = await startPlane();
  });
  beforeEach(async () => {
    if (plane !== undefined) once = await startOnce(plane, options);
  });
  afterEach(async () => {
    once?.stop();
    await plane?.restore();
  });
  afterAll(() => plane?.cluster[Symbol.asyncDispose]());
  return () => {
    if (once === undefined) throw new Error("the bench starts with each test, not before");
    return once;
  };
}

interface Plane {
  readonly cluster: PrivateCluster;
  /** Has the rights of the controller's account, as installed. */
  readonly kubeconfig: string;
  readonly restore: () => Promise<void>;
  /** See `createSnapshots`. */
  readonly empty: Set<string>;
}

async function startPlane(): Promise<Plane> {
  const cluster = await startCluster();
  const kubeconfig = path.join(cluster.dir, "controller.kubeconfig");
  await giveControllerIdentity(cluster, kubeconfig);
  return { cluster, kubeconfig, restore: await cluster.remember(), empty: new Set() };
}

async function startOnce({ cluster, kubeconfig, empty }: Plane, options: OnceOptions) {
  const clock = createStandingClock();
  const snapshots = createSnapshots(empty);
  const admin = snapshots.tracked(await connect({ kubeconfigPath: cluster.kubeconfig }));
  const client = createClient(admin);
  const objects = objectsOf(cluster.kubeconfig, snapshots.tracked);
  const own = snapshots.tracked(await connect({ kubeconfigPath: kubeconfig, maxRequests: 32 }));
  const agents = createScriptedAgents(client, clock);
  const recorded: { readonly about: string; readonly event: EventInput }[] = [];
  const record: LeadOptions["record"] = ({ name: about = "" }, event) => void recorded.push({ about, event });
  const lead = () => startStepped({ ...options, connection: own, clock, snapshots, record });
  let stepped = await lead();
  const looks: ((leader: Leader) => void)[] = [];
  const refresh = async () => {
    if (await snapshots.refresh()) for (const look of looks) look(stepped.leader);
  };
  const settle = () => settleAll(() => stepped, agents, refresh);
  const once: Once = {
    cluster,
    client,
    objects,
    clock,
    agents: async (hosts) => {
      for (const [host, ofHost] of Object.entries(hosts)) await agents.start(host, ofHost);
      await settle();
    },
    agent: agents.of,
    settle,
    reconcile: async (queue, key) => {
      await refresh();
      stepped.queues.take({ queue, key });
      return stepped.pass(queue, key);
    },
    advance: async (ms) => {
      await settle();
      for (let leftMs = ms; leftMs > 0; leftMs -= RENEW_MS) {
        clock.advance(Math.min(leftMs, RENEW_MS));
        await agents.renewAll();
        await settle();
      }
    },
    restart: async (whileAway) => {
      stepped.stop();
      await whileAway?.();
      stepped = await lead();
      await settle();
    },
    observe: (look) => {
      looks.push(look);
      look(stepped.leader);
    },
    events: (name) =>
      recorded
        .filter(({ about }) => about === name)
        .map(({ event: { type, reason, note } }) => `${type} ${reason}: ${note}`),
    namespace: async (name, ...model) => {
      await objects.createNamespace(name);
      await makeModel(client, objects.apply, name, "tiny", ...model);
      return name;
    },
    model: (...model) => makeModel(client, objects.apply, ...model),
    apply: async (...all) => {
      await objects.apply(...all);
      await settle();
    },
    patch: async (...change) => {
      await objects.patch(...change);
      await settle();
    },
    remove: async (namespace, ...what) => {
      await objects.startRemoval(namespace, ...what);
      await settle();
      for (const one of what) await expectGone(objects, namespace, one);
    },
    service: (namespace, name) => objects.get(namespace, `isvc/${name}`),
    replicas: async (namespace) => (await objects.get(namespace, "irep")).items,
  };
  return {
    ...once,
    stop: () => {
      stepped.stop();
      for (const connection of [admin, own]) connection.close();
      objects[Symbol.dispose]();
    },
  };
}

interface Stepped {
  readonly leader: Leader;
  readonly queues: SteppedQueues;
  readonly pass: (queue: string, key: string) => Promise<Recheck | undefined>;
  readonly stop: () => void;
}

interface SteppedOptions extends OnceOptions, Pick<LeadOptions, "record" | "clock"> {
  readonly connection: KubeConnection;
  readonly snapshots: Snapshots;
}

/** What `runController` gives its leader, but for snapshots and queues that do not run. */
async function startStepped({ flags, log = quietLog, clock, ...options }: SteppedOptions): Promise<Stepped> {
  const { connection, snapshots, record } = options;
  const stop = new AbortController();
  const image = "registry.example/metalbridge:1.0.0";
  const config = parseControllerConfig({ benchmarks: "Off", hostsOnly: true, image, ...flags });
  const { hostsOnly } = config;
  const scores = config.fitness ? await fitness() : undefined;
  const own = { connection, clock, log, signal: stop.signal, fitness: scores, hostsOnly };
  const connectApart = () => Promise.reject(new Error("no option of these tests connects"));
  const parts = await startOptions(config, { ...own, connectApart });
  const queues = createSteppedQueues(
    clock,
    parts.flatMap(({ queue = [] }) => queue),
  );
  const assembled = assemble(
    {
      ...own,
      record,
      startReflector: snapshots.startReflector,
      client: createClient(connection),
      metrics: createControllerMetrics(clock),
      scoreWeights: config.scoreWeights,
      podsSettings: podsSettingsOf(config),
      probing: probingOf(config),
      routes: routeSettingsOf(config),
      ruleLabels: ruleLabelsOf(config),
      options: parts,
      // Models are input here: their status is written by the test.
      createModelPass: () => async () => undefined,
      onWatching: () => {},
      onWorking: () => {},
    },
    queues.queues,
  );
  // A list that is refused rejects here.
  await snapshots.refresh();
  const leader = await assembled;
  if (leader === undefined) throw new Error("stopped before the start");
  return {
    leader,
    queues,
    stop: () => stop.abort(),
    pass: async (queue, key) => {
      const recheck = await leader.passes[queue]?.(key, stop.signal);
      if (recheck?.recheckAfterMs !== undefined)
        queues.queues[queue]?.enqueueAfter(key, recheck.recheckAfterMs);
      return recheck;
    },
  };
}

let scored: ReturnType<typeof createFitness> | undefined;

async function fitness() {
  scored ??= createFitness((await readCatalogFiles()).records);
  return scored;
}

async function settleAll(
  stepped: () => Stepped,
  agents: ScriptedAgents,
  refresh: () => Promise<void>,
): Promise<void> {
  const passes = new Map<string, number>();
  for (;;) {
    await refresh();
    const { queues, pass, leader } = stepped();
    const due = queues.next();
    if (due !== undefined) {
      const id = `${due.queue} ${due.key}`;
      const count = (passes.get(id) ?? 0) + 1;
      passes.set(id, count);
      if (count > MAX_PASSES)
        throw new Error(`${id} is due again and again: ${count} passes did not settle it`);
      await pass(due.queue, due.key);
      continue;
    }
    const { replicasOfHost, slices } = leader.watches;
    if (!(await agents.act({ replicasOf: replicasOfHost.of, slice: slices.get }))) return;
  }
}

async function expectGone(objects: Objects, namespace: string, what: string): Promise<void> {
  const left = await objects.get(namespace, what).catch((error: { readonly status?: number }) => {
    if (error.status !== 404) throw error;
  });
  const isGone = left === undefined || left.items?.length === 0;
  if (!isGone) throw new Error(`${what} in ${namespace} is not gone: ${JSON.stringify(left)}`);
}
