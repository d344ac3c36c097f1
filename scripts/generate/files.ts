/** Every generated file with its content. */
import { readFileSync } from "node:fs";
import { stringify } from "yaml";
import { customResourceDefinitions, definitions, rootSchema } from "../../src/api/crd/definitions.ts";
import { renderBenchmarks } from "./benchmarks.ts";
import { renderConfiguration } from "./configuration.ts";
import { renderErrors } from "./errors.ts";
import { renderReference } from "./reference.ts";

const BENCHMARKS = new URL("../../docs/benchmarks.md", import.meta.url);
const HEADER = "# Generated from src/api by npm run generate. Do not edit.\n";

/** Paths from the repository's root, and what belongs there. */
export function generatedFiles(): Map<string, string> {
  const files = new Map<string, string>();
  for (const crd of customResourceDefinitions()) {
    const plural = crd.metadata.name.split(".")[0];
    files.set(
      `charts/crds/${plural}.yaml`,
      HEADER + stringify(crd, { lineWidth: 0, aliasDuplicateObjects: false, version: "1.1" }),
    );
  }
  for (const definition of definitions) {
    files.set(
      `docs/reference/${definition.kind.kind.toLowerCase()}.md`,
      renderReference(definition, rootSchema(definition)),
    );
  }
  files.set("docs/errors.md", renderErrors());
  files.set("docs/configuration.md", renderConfiguration());
  files.set("docs/benchmarks.md", renderBenchmarks(readFileSync(BENCHMARKS, "utf8")));
  return files;
}
