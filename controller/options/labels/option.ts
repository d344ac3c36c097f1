/** The option: labels Nodes and Hosts with their hardware. */
import { z } from "zod";
import { MANAGER_LABELS } from "../../../src/api/group.ts";
import type { Host } from "../../../src/api/host.ts";
import { HOSTS } from "../../../src/api/kinds.ts";
import { nodeOfReport } from "../../../src/api/node-report.ts";
import { devicesOfHost } from "../../../src/capacity/devices/host.ts";
import { DEFAULT_LABEL_PREFIX, labelsOf } from "../../../src/capacity/devices/labels.ts";
import { hardwareOf } from "../../../src/cluster/nodes.ts";
import { NODES } from "../../../src/kube/kinds.ts";
import { apiVersionOf } from "../../../src/kube/paths.ts";
import type { Recheck } from "../../../src/kube/queue.ts";
import type { Kind, KubeObject } from "../../../src/kube/types.ts";
import type { Node } from "../../../src/kube/workload-objects.ts";
import { isDeepEqual } from "../../../src/util/deep-equal.ts";
import { isSettled } from "../../frame/apply/failure.ts";
import type { Option } from "../../frame/option.ts";
import type { ControllerPorts } from "../../frame/ports.ts";
import type { ChangeHandlers } from "../../frame/watches/contract.ts";
import { hasOtherCapacity } from "../../frame/watches/pod-watches.ts";
import { planLabels } from "./plan.ts";

export const labelsConfigSchema = z.strictObject({
  labels: z
    .boolean()
    .default(true)
    .describe(
      "Label Nodes and Hosts with their GPU vendor, memory, architecture and device class. If false, labels are not changed.",
    ),
  labelPrefix: z
    .string()
    .max(253)
    .regex(/^[a-z0-9]([-a-z0-9.]*[a-z0-9])?\/?$/, "needs a DNS name, such as metalbridge.dev/")
    .default(DEFAULT_LABEL_PREFIX)
    .describe("Prefix of these labels. Labels with the previous prefix are removed."),
});

export const labels: Option<typeof labelsConfigSchema.shape> = {
  shape: labelsConfigSchema.shape,
  start: (config) => ({
    queue: "labels",
    lead: (ports) => {
      const { enqueue, watches } = ports;
      return {
        pass: createLabelsPass({ ...ports, prefix: labelPrefixOf(config) }),
        handlers: handlersOf(enqueue),
        keys: () => [
          ...watches.nodes.list().map(({ metadata }) => `nodes/${metadata.name}`),
          ...watches.hosts.list().map(({ metadata }) => `hosts/${metadata.name}`),
        ],
      };
    },
  }),
};

/** The prefix with its slash; undefined if labels are off. */
function labelPrefixOf({ labels, labelPrefix }: z.output<typeof labelsConfigSchema>): string | undefined {
  if (!labels) return undefined;
  return labelPrefix.endsWith("/") ? labelPrefix : `${labelPrefix}/`;
}

export function handlersOf(enqueue: (key: string) => void): Partial<ChangeHandlers> {
  return {
    onHost: (name, host, before) => {
      if (!isDeepEqual(factsOf(host), factsOf(before))) enqueue(`hosts/${name}`);
    },
    onNode: (node, before) => {
      const name = (node ?? before)?.metadata.name;
      if (!isDeepEqual(factsOf(node), factsOf(before))) enqueue(`nodes/${name}`);
    },
    onNodeSlice: (node) => enqueue(`nodes/${node}`),
    onNodeReport: (report, before) => {
      const node = nodeOfReport((report ?? before)?.metadata.name ?? "");
      if (node !== undefined && hasOtherCapacity(report, before)) enqueue(`nodes/${node}`);
    },
  };
}

/** The parts of a Node or a Host on which its hardware labels depend. */
function factsOf(object: Node | Host | undefined): readonly unknown[] | undefined {
  if (object === undefined) return undefined;
  const { status = {}, metadata } = object;
  if ("info" in status) return [metadata.labels, status.info, status.memory?.totalBytes];
  return "capacity" in status ? [metadata.labels, status.capacity, status.allocatable] : [metadata.labels];
}

type LabelsPorts = Pick<ControllerPorts, "client" | "clock" | "log" | "watches"> & {
  /** Undefined: labels are not changed. */
  readonly prefix: string | undefined;
};

/** Interval between attempts while the account lacks the right. One object is tried, and the others wait. */
const FORBIDDEN_RECHECK_MS = 300_000;
const CONFLICT_RECHECK_MS = 1_000;
const FIRST_LIST_RECHECK_MS = 500;

/** Returns the pass over `nodes/NAME` or `hosts/NAME`. */
function createLabelsPass(ports: LabelsPorts): (key: string) => Promise<Recheck | undefined> {
  const { watches, prefix } = ports;
  const nodes = createWriter(ports, NODES);
  const hosts = createWriter(ports, HOSTS);
  return async (key) => {
    if (prefix === undefined) return undefined;
    const name = key.slice(key.indexOf("/") + 1);
    if (key.startsWith("hosts/")) {
      const host = watches.hosts.get(name);
      return host && hosts(host, labelsOf(devicesOfHost(host), prefix));
    }
    const node = watches.nodes.get(name);
    if (node === undefined) return undefined;
    const { resourceSlices } = watches;
    // A cluster without this kind, or an account without the right to it, has failed once.
    if (!resourceSlices.isSynced() && resourceSlices.interruptions() === 0)
      return { recheckAfterMs: FIRST_LIST_RECHECK_MS };
    return nodes(node, labelsOf(hardwareOf(node, watches).devices, prefix));
  };
}

function createWriter<T extends KubeObject>({ client, clock, log }: LabelsPorts, kind: Kind<T>) {
  let forbiddenUntilMs: number | undefined;
  return async (current: T, derived: Readonly<Record<string, string>>): Promise<Recheck | undefined> => {
    const labels = planLabels(current, apiVersionOf(kind), derived);
    if (labels === undefined) return undefined;
    if (forbiddenUntilMs !== undefined && clock.monotonicMs() < forbiddenUntilMs)
      return { recheckAfterMs: FORBIDDEN_RECHECK_MS };
    const { name } = current.metadata;
    const object = { metadata: { name, labels } } as unknown as T;
    // Not forced: another manager may have set a label since.
    const result = await client.apply(kind, object, { manager: MANAGER_LABELS, current, isForced: false });
    if (!result.ok && result.error.kind === "forbidden") {
      const text = `this account may not label ${kind.kind}s; with the chart: --set labels.enabled=true`;
      if (forbiddenUntilMs === undefined) log.warn({ code: "ApiForbidden", failure: result.error }, text);
      forbiddenUntilMs = clock.monotonicMs() + FORBIDDEN_RECHECK_MS;
      return { recheckAfterMs: FORBIDDEN_RECHECK_MS };
    }
    forbiddenUntilMs = undefined;
    if (!isSettled(`label ${kind.kind} ${name}`, result)) return { recheckAfterMs: CONFLICT_RECHECK_MS };
    log.info({ [kind.kind.toLowerCase()]: name, labels }, "hardware labels applied");
    return undefined;
  };
}
