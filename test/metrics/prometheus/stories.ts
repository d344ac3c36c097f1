/** charts/metalbridge/alerts.test.yaml: what each alert is tested with. */
import { readFileSync } from "node:fs";
import path from "node:path";
import { parse } from "yaml";
import { z } from "zod";
import { root } from "../../docs/pages.ts";

const schema = z.strictObject({
  rule_files: z.tuple([z.literal("rules.yaml")]),
  evaluation_interval: z.string(),
  tests: z.array(
    z.strictObject({
      name: z.string(),
      interval: z.string(),
      input_series: z.array(z.strictObject({ series: z.string(), values: z.string() })).min(1),
      alert_rule_test: z.array(
        z.strictObject({
          eval_time: z.string(),
          alertname: z.string(),
          exp_alerts: z.array(z.looseObject({})),
        }),
      ),
    }),
  ),
});

export type Story = z.output<typeof schema>["tests"][number];

export const storiesFile: string = path.join(root, "charts/metalbridge/alerts.test.yaml");

export function stories(): readonly Story[] {
  return schema.parse(parse(readFileSync(storiesFile, "utf8"))).tests;
}
