/** The real Helm on the chart of this repository, with folders of its own. */
import path from "node:path";
import { parseAllDocuments } from "yaml";
import { z } from "zod";
import { findHelm } from "../../scripts/setup/go-programs.mjs";
import { run } from "../bed/run.ts";
import { root } from "../docs/pages.ts";

/** Undefined where there is none: tests that need it are then skipped and say so. */
export const helmProgram: string | undefined = findHelm();
export const needsHelm = helmProgram === undefined ? " (needs helm: npm run setup -- --for test)" : "";

export const CHART = path.join(root, "charts/metalbridge");
export const NAMESPACE = "metalbridge-system";
/** Helm takes a name and a version of Kubernetes as given where it talks to no cluster. */
const OFFLINE = ["--namespace", NAMESPACE, "--kube-version", "1.32.0"];
const IMAGE = ["--set", "image.repository=registry.example.com/metalbridge"];

const objectSchema = z.looseObject({
  apiVersion: z.string(),
  kind: z.string(),
  metadata: z.looseObject({ name: z.string(), namespace: z.string().optional() }),
});
export type ChartObject = z.output<typeof objectSchema>;

export type Helm = (...args: readonly string[]) => Promise<string>;

/** Resolves with stdout; rejects with what Helm said. `home` holds what Helm keeps. */
export function helmIn(home: string, kubeconfig = "/nonexistent"): Helm {
  const folders = { HELM_CACHE_HOME: home, HELM_CONFIG_HOME: home, HELM_DATA_HOME: home };
  const env = { PATH: process.env.PATH, HOME: home, KUBECONFIG: kubeconfig, ...folders };
  // For installations with --wait.
  const options = { env, timeoutMs: 240_000 };
  return (...args) => run(helmProgram ?? "helm", args, options);
}

export function lint(helm: Helm, ...args: readonly string[]): Promise<string> {
  return helm("lint", CHART, "--strict", ...OFFLINE, ...args);
}

/** The chart with these values, as text. */
export function template(helm: Helm, ...args: readonly string[]): Promise<string> {
  return helm("template", "metalbridge", CHART, ...OFFLINE, ...IMAGE, ...args);
}

/** Every object of it. */
export async function render(helm: Helm, ...args: readonly string[]): Promise<readonly ChartObject[]> {
  return objectsOf(await template(helm, ...args));
}

export function install(helm: Helm, chart: string, ...args: readonly string[]): Promise<string> {
  return helm("install", "metalbridge", chart, "-n", NAMESPACE, ...IMAGE, ...args);
}

/** Most documents are the same in every rendering, and to parse them takes longer than Helm does. */
const parsed = new Map<string, readonly ChartObject[]>();

export function objectsOf(text: string): readonly ChartObject[] {
  return text.split(/^---$/m).flatMap((part) => {
    const objects = parsed.get(part) ?? parse(part);
    parsed.set(part, objects);
    return objects;
  });
}

function parse(text: string): readonly ChartObject[] {
  const documents = parseAllDocuments(text).map((document) => {
    if (document.errors[0] !== undefined) throw document.errors[0];
    return document.toJS() as unknown;
  });
  return documents.filter((document) => document !== null).map((document) => objectSchema.parse(document));
}
