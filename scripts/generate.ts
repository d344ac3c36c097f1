/** Writes what is generated from the sources: CRDs, field reference, error catalog, configuration, command line. `--check` fails when a file is not up to date. */
import { mkdir, readFile, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { generatedFiles } from "./generate/files.ts";
import { root } from "./project/root.ts";

async function contentOf(path: string): Promise<string | undefined> {
  return readFile(join(root, path), "utf8").catch(() => undefined);
}

async function staleFiles(): Promise<[path: string, content: string][]> {
  const entries = [...(await generatedFiles())];
  const current = await Promise.all(entries.map(([path]) => contentOf(path)));
  return entries.filter(([, content], index) => content !== current[index]);
}

async function write(path: string, content: string): Promise<void> {
  await mkdir(dirname(join(root, path)), { recursive: true });
  await writeFile(join(root, path), content);
  console.log(`wrote ${path}`);
}

const stale = await staleFiles();
if (process.argv.includes("--check")) {
  for (const [path] of stale) console.error(`${path} is not up to date: run npm run generate`);
  process.exitCode = stale.length === 0 ? 0 : 1;
} else {
  for (const [path, content] of stale) await write(path, content);
  // examples/install is rendered from the chart, which was written just now.
  if (stale.length > 0) for (const [path, content] of await staleFiles()) await write(path, content);
  if (stale.length === 0) console.log("everything generated is up to date");
}
