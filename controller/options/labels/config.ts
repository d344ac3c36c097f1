/** Settings of the labels that describe hardware. */
import { z } from "zod";
import { DEFAULT_LABEL_PREFIX } from "../../../src/capacity/devices/labels.ts";

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

/** The prefix with its slash; undefined if labels are off. */
export function labelPrefixOf({
  labels,
  labelPrefix,
}: z.output<typeof labelsConfigSchema>): string | undefined {
  if (!labels) return undefined;
  return labelPrefix.endsWith("/") ? labelPrefix : `${labelPrefix}/`;
}
