/** Every generated file with its content. */
import { readFileSync } from "node:fs";
import { parse, stringify } from "yaml";
import { priorityClasses } from "../../controller/pods/workload/priorities.ts";
import { openApiDocument } from "../../server/rest/openapi.ts";
import { flowControl } from "../../src/api/access/flow-control.ts";
import { hostPolicies } from "../../src/api/access/host-policies.ts";
import { joinPolicy } from "../../src/api/access/join-group.ts";
import { sharedRoles } from "../../src/api/access/roles.ts";
import { dangerousPodsPolicy, userPolicies } from "../../src/api/access/user-policies.ts";
import { customResourceDefinitions, definitions, rootSchema } from "../../src/api/crd/definitions.ts";
import { MANIFEST_YAML } from "../../src/kube/manifest-yaml.ts";
import { purePatterns } from "../structure/layers.ts";
import { benchmarkLines } from "./benchmarks.ts";
import { renderInstall, valueLines } from "./chart.ts";
import { commandLineParts } from "./command-line.ts";
import { renderConfiguration } from "./configuration.ts";
import { doctorLines } from "./doctor.ts";
import { renderErrors } from "./errors.ts";
import { speedErrorLines } from "./fitness.ts";
import { governorLines } from "./governor.ts";
import { renewParts } from "./marked.ts";
import { metricParts } from "./metrics.ts";
import { renderReference } from "./reference.ts";
import { selftestLines } from "./selftest.ts";
import { renderSkillPack } from "./skill-pack.ts";
import { renewVersions } from "./version.ts";

const KEPT = { "helm.sh/resource-policy": "keep" };
const HEADER = "# Generated from src/api by npm run generate. Do not edit.\n";

const CHART_YAML = { ...MANIFEST_YAML, lineWidth: 0, aliasDuplicateObjects: false } as const;

const RULES_HEADER =
  "# Generated from alerts.yaml by npm run generate: the same rules as a rule file of Prometheus. Do not edit.\n";

/** Templates of the chart that a value leaves out. */
const SWITCHED: Readonly<Record<string, string>> = {
  "policy-dangerous-pods": "not .Values.allowDangerousPods",
};

/** Paths from the repository's root, and what belongs there. */
export async function generatedFiles(): Promise<Map<string, string>> {
  const files = new Map<string, string>();
  for (const crd of customResourceDefinitions()) {
    const plural = crd.metadata.name.split(".")[0];
    // `helm uninstall` must not take every Model and service with it.
    files.set(`charts/metalbridge/files/crds/${plural}.yaml`, HEADER + stringify(kept(crd), CHART_YAML));
  }
  for (const [name, objects] of [
    ["roles", sharedRoles()],
    ["policies", [...hostPolicies(), ...joinPolicy(), ...userPolicies()]],
    ["policy-dangerous-pods", dangerousPodsPolicy()],
    ["flow-control", flowControl()],
    // Pods of services that outlive the chart could not be replaced without them. Without our label managed-by: Helm sets that to
    // its own value, and a later kubectl apply would conflict with it.
    ["priorities", priorityClasses().map((one) => kept({ ...one, metadata: { name: one.metadata.name } }))],
  ] as const) {
    const text = objects.map((object) => stringify(object, CHART_YAML));
    const condition = SWITCHED[name];
    const body =
      condition === undefined
        ? text.join("---\n")
        : `{{- if ${condition} }}\n${text.join("---\n")}{{- end }}\n`;
    files.set(`charts/metalbridge/templates/${name}.yaml`, HEADER + body);
  }
  for (const definition of definitions) {
    files.set(
      `docs/reference/${definition.kind.kind.toLowerCase()}.md`,
      renderReference(definition, rootSchema(definition)),
    );
  }
  files.set("docs/errors.md", renderErrors());
  files.set("docs/configuration.md", renderConfiguration());
  for (const [path, name, lines] of [
    ["docs/benchmarks.md", "results", benchmarkLines()],
    ["docs/doctor.md", "checks", doctorLines()],
    ["docs/selftest.md", "steps", selftestLines()],
    ["docs/fitness.md", "speed errors", speedErrorLines()],
    ["docs/memory.md", "governor", governorLines()],
    ["charts/README.md", "values", valueLines()],
  ] as const)
    files.set(path, renewParts(path, { [name]: lines }));
  files.set("docs/cli.md", renewParts("docs/cli.md", await commandLineParts()));
  files.set("docs/observability.md", renewParts("docs/observability.md", metricParts()));
  files.set("docs/reference/density-openapi.json", `${JSON.stringify(openApiDocument(), undefined, 2)}\n`);
  files.set("charts/metalbridge/rules.yaml", renderRules());
  files.set("biome.json", renderLintRules());
  files.set("skills/metalbridge/skillpack.yaml", renderSkillPack());
  renewVersions(files);
  // Rendered from the chart as it is on disk; without Helm it is not compared.
  const install = renderInstall();
  if (install !== undefined) files.set("examples/install/metalbridge.yaml", install);
  return files;
}

function kept<T extends { readonly metadata: object }>(object: T) {
  return { ...object, metadata: { ...object.metadata, annotations: KEPT } };
}

/** The alerts as a plain rule file, for a Prometheus without the operator. */
function renderRules(): string {
  const { spec } = parse(
    readFileSync(new URL("../../charts/metalbridge/alerts.yaml", import.meta.url), "utf8"),
  );
  return RULES_HEADER + stringify(spec, { lineWidth: 0 });
}

/** The lint rules, with the globals of effects forbidden in exactly the folders that `npm run structure` holds pure. */
function renderLintRules(): string {
  const rules = readFileSync(new URL("../../biome.json", import.meta.url), "utf8");
  const patterns = purePatterns().map((pattern) => `        ${JSON.stringify(pattern)}`);
  const list =
    /("includes": \[\n)(?:[^\]]*)(\n {6}\],(?:\s+"\w+": \{)+\s+"level": "error",\s+"options": \{\s+"deniedGlobals")/;
  if (!list.test(rules)) throw new Error("biome.json has no override with deniedGlobals");
  return rules.replace(list, (_, start, end) => `${start}${patterns.join(",\n")}${end}`);
}
