/** The setting for the objects of service level objectives, with its default. */
import { z } from "zod";

const LABEL =
  /^([a-z0-9]([-a-z0-9.]*[a-z0-9])?\/)?[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?=([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?$/;

export const objectivesConfigSchema = z.strictObject({
  ruleLabels: z
    .string()
    .max(4096)
    .default("")
    .refine(
      (text) => text === "" || text.split(",").every((pair) => LABEL.test(pair)),
      "must be labels such as release=monitoring, separated by commas",
    )
    .describe(
      "Additional labels (KEY=VALUE, separated by commas) of the objects that spec.slo makes, for the ruleSelector of the Prometheus operator.",
    ),
});

export type RuleLabels = Readonly<Record<string, string>>;

export function ruleLabelsOf({ ruleLabels }: z.output<typeof objectivesConfigSchema>): RuleLabels {
  const pairs = ruleLabels === "" ? [] : ruleLabels.split(",");
  return Object.fromEntries(pairs.map((pair) => pair.split("=", 2)));
}
