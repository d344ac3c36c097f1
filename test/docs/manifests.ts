/** The manifests that users copy: every file in examples/, every YAML block of a page that is of our API. */
import { readFileSync } from "node:fs";
import path from "node:path";
import { parseAllDocuments } from "yaml";
import { z } from "zod";
import { API_VERSION } from "../../src/api/group.ts";
import { allPages, repositoryFiles, root } from "./pages.ts";

export interface Found {
  /** File, and line of the block where it is one. */
  readonly where: string;
  readonly object: z.output<typeof objectSchema>;
}

const objectSchema = z.looseObject({
  apiVersion: z.string(),
  kind: z.string(),
  metadata: z.looseObject({ name: z.string() }),
});

/** Of Ansible. */
export const NO_MANIFESTS = "examples/mac-fleet/";

/** Every object of the examples. */
export function exampleManifests(): readonly Found[] {
  return repositoryFiles("examples/**/*.yaml", "examples/**/*.yml", "examples/**/*.json")
    .filter((file) => !file.startsWith(NO_MANIFESTS))
    .flatMap((file) => objectsIn(file, readFileSync(path.join(root, file), "utf8")));
}

/** Every object of our API in a YAML block of a page. */
export function documentedManifests(): readonly Found[] {
  return allPages().flatMap((page) =>
    page.blocks
      .filter(({ language, text }) => /^ya?ml$/.test(language) && text.includes(API_VERSION))
      .flatMap(({ text, line }) => objectsIn(`${page.path}:${line}`, text)),
  );
}

function objectsIn(where: string, text: string): readonly Found[] {
  return parseAllDocuments(text).map((document) => {
    const [error] = document.errors;
    if (error !== undefined) throw new Error(`${where}: ${error.message}`);
    return { where, object: objectSchema.parse(document.toJS()) };
  });
}
