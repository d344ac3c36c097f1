/** What happens to nodes and to the pods on them. */
import { LABEL_SERVICE } from "../../../../src/api/group.ts";
import type { RealNode } from "../../../bed/node/node.ts";
import { send } from "../../../bed/signal.ts";
import type { PlannedFault } from "../../plan/plan-faults.ts";
import { type Fault, type FaultContext, type Injected, serviceOf } from "../fault.ts";
import { persistently, tried } from "../spec/changes.ts";
import { untilUp } from "./api-server.ts";

/** Its container is started again, on the same node. */
export const podKill: Fault = async (context, planned) => {
  const name = serviceOf(planned);
  const uids = podsOf(context, name).map(({ metadata }) => metadata.uid);
  context.engines.look();
  const all = context.engines.engines().filter(({ uid }) => uids.includes(uid));
  const engine = all[Math.floor(planned.chance * all.length)];
  if (engine === undefined) return { at: "skipped", why: "no pod has an engine" };
  const { host, uid, pid } = engine;
  context.recorder.note({ type: "engine", change: "killed", host, uid, pid });
  send(pid, "SIGKILL");
  return { at: "done", detail: `engine ${pid} in a pod of ${name}` };
};

/** In good order: it drains, and another takes its place. */
export const podDelete: Fault = (context, planned) =>
  tried(async () => {
    const pods = podsOf(context, serviceOf(planned));
    const pod = pods[Math.floor(planned.chance * pods.length)];
    if (pod === undefined) throw new Error("there is no pod");
    await context.bed.objects.deletePod(pod.metadata.name);
    return pod.metadata.name;
  });

function podsOf({ cluster }: FaultContext, service: string) {
  const own = cluster.pods.list().filter(({ metadata }) => metadata.labels?.[LABEL_SERVICE] === service);
  return own.filter(({ metadata }) => metadata.deletionTimestamp === undefined);
}

/** The machine loses power, and boots with its disk as it was. */
export const nodeKill: Fault = async (context, planned) => {
  const node = nodeOf(context, planned);
  const { engines, recorder } = context;
  engines.look();
  const own = engines.engines().filter(({ host }) => host === node.name);
  recorder.note({ type: "part", part: "kubelet", host: node.name, change: "ended" });
  for (const { host, uid, pid } of own) recorder.note({ type: "engine", change: "killed", host, uid, pid });
  await node.kill();
  return {
    at: "done",
    detail: `${own.length} engines`,
    heal: async () => {
      // It is ready once the API server knows.
      await untilUp(context);
      await node.boot();
      recorder.note({ type: "part", part: "kubelet", host: node.name, change: "started" });
    },
  };
};

/** Pods run on, and nothing reports them. */
export const kubeletStop: Fault = async (context, planned) => {
  const node = nodeOf(context, planned);
  const note = (change: "started" | "ended") =>
    context.recorder.note({ type: "part", part: "kubelet", host: node.name, change });
  note("ended");
  await node.stopKubelet();
  return {
    at: "done",
    detail: "",
    heal: async () => {
      node.startKubelet();
      note("started");
    },
  };
};

/** Nothing new is scheduled there. */
export const nodeCordon: Fault = (context, planned) => unschedulable(context, planned, "cordon");

/** Its pods are evicted, as far as disruption budgets allow. */
export const nodeDrain: Fault = (context, planned) => unschedulable(context, planned, "drain");

async function unschedulable(
  context: FaultContext,
  planned: PlannedFault,
  verb: "cordon" | "drain",
): Promise<Injected> {
  const { kubectl } = context.bed;
  const { name } = nodeOf(context, planned);
  const cordoned = await tried(async () => {
    await kubectl(["cordon", name]);
    return name;
  });
  if (cordoned.at === "skipped") return cordoned;
  const seconds = Math.ceil(planned.forMs / 1_000);
  const drain = ["drain", name, "--ignore-daemonsets", "--delete-emptydir-data", `--timeout=${seconds}s`];
  // What is not gone by then stays.
  if (verb === "drain") void kubectl(drain).catch(() => {});
  return {
    ...cordoned,
    heal: () =>
      persistently(async () => {
        await kubectl(["uncordon", name]);
      }),
  };
}

function nodeOf({ bed }: FaultContext, { target = "" }: PlannedFault): RealNode {
  const node = bed.nodes.get(target);
  if (node === undefined) throw new Error(`there is no node ${target}`);
  return node;
}
