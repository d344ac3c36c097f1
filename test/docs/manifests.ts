/** The manifests that users copy: every file in examples/, every YAML block of a page that is of our API. */
import { readFileSync } from "node:fs";
import path from "node:path";
import { parseAllDocuments } from "yaml";
import { z } from "zod";
import { API_VERSION } from "../../src/api/group.ts";
import { allPages, repositoryFiles, root } from "./pages.ts";

/** Manifests as they are written: a file, or one block of a page. */
export interface ManifestText {
  /** The file, with the line of the block in a page. */
  readonly where: string;
  readonly text: string;
}

export interface Found {
  readonly where: string;
  readonly object: z.output<typeof objectSchema>;
}

const objectSchema = z.looseObject({
  apiVersion: z.string(),
  kind: z.string(),
  metadata: z.looseObject({ name: z.string() }),
});

/** Files of Ansible, and of kube-scheduler, kubeadm and k3s. */
export const NO_MANIFESTS: readonly string[] = ["examples/mac-fleet/", "examples/scheduler/"];

/** Every object of the examples. */
export function exampleManifests(): readonly Found[] {
  return exampleTexts().flatMap(objectsIn);
}

/** Every object of our API in a YAML block of a page. */
export function documentedManifests(): readonly Found[] {
  return documentedTexts().flatMap(objectsIn);
}

/** Every file of the examples with manifests. */
export function exampleTexts(): readonly ManifestText[] {
  return repositoryFiles("examples/**/*.yaml", "examples/**/*.yml", "examples/**/*.json")
    .filter((file) => !NO_MANIFESTS.some((folder) => file.startsWith(folder)))
    .map((file) => ({ where: file, text: readFileSync(path.join(root, file), "utf8") }));
}

/** Every YAML block of a page. */
export function yamlBlocks(): readonly ManifestText[] {
  return allPages().flatMap((page) =>
    page.blocks
      .filter(({ language }) => /^ya?ml$/.test(language))
      .map(({ text, line }) => ({ where: `${page.path}:${line}`, text })),
  );
}

/** Those with objects of our API. */
export function documentedTexts(): readonly ManifestText[] {
  return yamlBlocks().filter(({ text }) => text.includes(API_VERSION));
}

export function objectsIn({ where, text }: ManifestText): readonly Found[] {
  return parseAllDocuments(text).map((document) => {
    const [error] = document.errors;
    if (error !== undefined) throw new Error(`${where}: ${error.message}`);
    return { where, object: objectSchema.parse(document.toJS()) };
  });
}
