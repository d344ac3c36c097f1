/** The option: labels Nodes and Hosts with their hardware. */
import { z } from "zod";
import type { Host } from "../../../src/api/host.ts";
import { nodeOfReport } from "../../../src/api/node-report.ts";
import { DEFAULT_LABEL_PREFIX } from "../../../src/capacity/devices/labels.ts";
import type { Node } from "../../../src/kube/workload-objects.ts";
import { isDeepEqual } from "../../../src/util/deep-equal.ts";
import type { Option } from "../../frame/option.ts";
import type { ChangeHandlers } from "../../frame/watches/contract.ts";
import { hasOtherCapacity } from "../../frame/watches/pod-watches.ts";
import { createLabelsPass } from "./reconcile.ts";

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
