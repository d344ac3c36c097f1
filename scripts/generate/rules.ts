/** The alerts as a plain rule file, for a Prometheus without the operator. */
import { readFileSync } from "node:fs";
import { parse, stringify } from "yaml";

const HEADER =
  "# Generated from alerts.yaml by npm run generate: the same rules as a rule file of Prometheus. Do not edit.\n";

export function renderRules(): string {
  const { spec } = parse(
    readFileSync(new URL("../../charts/metalbridge/alerts.yaml", import.meta.url), "utf8"),
  );
  return HEADER + stringify(spec, { lineWidth: 0 });
}
