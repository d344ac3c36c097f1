/** The first page: what it loads, and when it takes input. */
import { readFile, stat } from "node:fs/promises";
import path from "node:path";
import { gzipSync } from "node:zlib";
import { packageRoot } from "../../../../local/package-root.ts";
import { measured, type ScenarioResult } from "../../beds/measurement.ts";
import type { ConsoleRig } from "./rig.ts";

const FOLDER = path.join(packageRoot(), "dist", "console");
const FIRST_PAGE = "src/pages/overview/overview.tsx";
const LOADS = 10;

interface ManifestChunk {
  readonly file: string;
  readonly imports?: readonly string[];
  readonly css?: readonly string[];
  readonly assets?: readonly string[];
}

/** The index with everything that it, the overview and the worker import, each file by gzip. */
export async function measureFirstPageSize(): Promise<ScenarioResult> {
  const manifest = JSON.parse(await readFile(path.join(FOLDER, ".vite", "manifest.json"), "utf8")) as Record<
    string,
    ManifestChunk
  >;
  const files = new Set(["index.html"]);
  const visit = (name: string): void => {
    const chunk = manifest[name];
    if (chunk === undefined) throw new Error(`the manifest of the console has no ${name}`);
    if (files.has(chunk.file)) return;
    for (const file of [chunk.file, ...(chunk.css ?? []), ...(chunk.assets ?? [])]) files.add(file);
    for (const next of chunk.imports ?? []) visit(next);
  };
  for (const name of ["index.html", FIRST_PAGE]) visit(name);
  const sizes = await Promise.all([...files].map(gzipBytes));
  const kilobytes = sizes.reduce((sum, bytes) => sum + bytes, 0) / 1_000;
  return measured("console: first page, by gzip", "KB", [kilobytes], { max: 300 });
}

/** The build has compressed all but the smallest files. */
async function gzipBytes(name: string): Promise<number> {
  const file = path.join(FOLDER, name);
  const compressed = await stat(`${file}.gz`).catch(() => undefined);
  return compressed?.size ?? gzipSync(await readFile(file)).length;
}

/** Marks the time, since the start of the navigation, at which the page has its title and the main thread is idle. */
const WATCH = `{
  const look = new MutationObserver(() => {
    if (document.querySelector("main h1") === null) return;
    look.disconnect();
    requestIdleCallback(() => { window.benchInteractiveMs = performance.now(); });
  });
  look.observe(document, { childList: true, subtree: true });
}`;

export async function measureFirstLoad(rig: ConsoleRig): Promise<readonly ScenarioResult[]> {
  const interactive: number[] = [];
  const listed: number[] = [];
  for (let load = 0; load < LOADS; load += 1) {
    await using reader = await rig.open(WATCH);
    await reader.open("/");
    interactive.push(await readNumber(reader.page, "window.benchInteractiveMs"));
    const startedMs = performance.now();
    await reader.page.goto(`${rig.url}/console/services`);
    await reader.page.locator(".table-row").first().waitFor();
    listed.push(performance.now() - startedMs);
  }
  const services = rig.fleet.services.length;
  return [
    measured("console: first page with an empty cache → interactive", "ms", interactive, { p50: 1_000 }),
    measured(`console: page opened → first of ${services} services shown`, "ms", listed),
  ];
}

/** Resolves once the expression has a value. */
async function readNumber(page: { evaluate(text: string): Promise<unknown> }, text: string): Promise<number> {
  for (;;) {
    const value = await page.evaluate(`new Promise((done) => setTimeout(() => done(${text}), 50))`);
    if (typeof value === "number") return value;
  }
}
