/** One control plane for all cluster tests of a run: started before the first, stopped after the last; none if the run has no such test. */
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import type { TestProject } from "vitest/node";
import { waitUntilServed } from "../../local/control-plane/bootstrap.ts";
import { readPartsConfig } from "../../local/control-plane/config.ts";
import { findClusterParts } from "../../local/control-plane/parts.ts";
import { type ControlPlane, startControlPlane } from "../../local/control-plane/start.ts";
import { customResourceDefinitions } from "../../src/api/crd/definitions.ts";
import { freePort } from "../bed/ports.ts";
import { needsCluster } from "../longest-first.ts";
import { quietLog } from "./quiet-log.ts";
import { copyTemplate } from "./template.ts";

declare module "vitest" {
  interface ProvidedContext {
    clusterKubeconfig: string;
  }
}

let controlPlane: ControlPlane | undefined;
let dir: string | undefined;

/** Called by vitest once per run of the project. */
export async function setup(project: TestProject): Promise<void> {
  if (!(await selectedFiles(project)).some(needsCluster)) return;
  dir = await mkdtemp(path.join(tmpdir(), "metalbridge-cluster-"));
  const parts = findClusterParts(readPartsConfig());
  await copyTemplate(parts, dir);
  controlPlane = await startControlPlane({
    dir,
    parts,
    port: await freePort(),
    isThrowaway: true,
    log: quietLog,
  });
  await waitUntilServed(controlPlane.access, customResourceDefinitions());
  project.provide("clusterKubeconfig", controlPlane.kubeconfig);
}

/** The test files that the command line selects: vitest has no public name for its filters. */
async function selectedFiles(project: TestProject): Promise<{ readonly moduleId: string }[]> {
  const { filenamePattern } = project.vitest as { readonly filenamePattern?: string[] };
  const { testFiles } = await project.globTestFiles(filenamePattern);
  return testFiles.map((moduleId) => ({ moduleId }));
}

/** Called by vitest at the end, also after failures. */
export async function teardown(): Promise<void> {
  await controlPlane?.stop();
  if (dir !== undefined) await rm(dir, { recursive: true, force: true });
}
