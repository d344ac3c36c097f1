/** Our custom resource definitions as objects. */
import { readdir, readFile } from "node:fs/promises";
import { fileURLToPath } from "node:url";
import { parseAllDocuments } from "yaml";
import type { CrdObject } from "../control-plane/bootstrap.ts";

/** All definitions, in the order of their files. */
export async function loadCrds(): Promise<readonly CrdObject[]> {
  const folder = fileURLToPath(new URL("../../charts/crds/", import.meta.url));
  const names = await readdir(folder).catch(() => []);
  const texts = await Promise.all(
    names.filter((name) => name.endsWith(".yaml")).map((name) => readFile(`${folder}${name}`, "utf8")),
  );
  return texts.flatMap((text) => parseAllDocuments(text).map((document) => document.toJS() as CrdObject));
}
