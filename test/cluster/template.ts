/** etcd's data with the first objects of a cluster: a control plane that starts from a copy takes half the CPU time. */
import { execFile } from "node:child_process";
import { existsSync } from "node:fs";
import { mkdir, mkdtemp, rename, rm } from "node:fs/promises";

import path from "node:path";
import { promisify } from "node:util";
import { basicObjects, installBasics } from "../../local/control-plane/bootstrap.ts";
import type { ClusterParts } from "../../local/control-plane/parts.ts";
import { startControlPlane } from "../../local/control-plane/start.ts";
import { controlPlaneLayoutOf } from "../../local/control-plane/state/layout.ts";
import { packageRoot } from "../../local/package-root.ts";
import { customResourceDefinitions } from "../../src/api/crd/definitions.ts";
import { systemCode } from "../../src/util/atomic-file.ts";
import { hash } from "../../src/util/hash.ts";
import { freePort } from "../bed/ports.ts";
import { quietLog } from "./quiet-log.ts";

/** Puts it where a control plane in the folder looks for it. Made by the first that needs it, and kept for later runs. */
export async function copyTemplate(parts: ClusterParts, dir: string): Promise<void> {
  const crds = customResourceDefinitions();
  const key = hash(JSON.stringify([parts, basicObjects(crds)]), 16);
  const template = path.join(packageRoot(), "node_modules", ".cache", `control-plane-${key}`);
  if (!existsSync(template)) await makeTemplate(parts, template);
  const { etcdData } = controlPlaneLayoutOf(dir);
  await mkdir(path.dirname(etcdData), { recursive: true });
  // Most of it is the space that etcd reserves for its log.
  await promisify(execFile)("cp", ["-r", "--sparse=always", template, etcdData]);
}

async function makeTemplate(parts: ClusterParts, template: string): Promise<void> {
  await mkdir(path.dirname(template), { recursive: true });
  const dir = await mkdtemp(`${template}-`);
  const options = { dir, parts, isThrowaway: true, log: quietLog, controllerManager: false };
  try {
    const { access, stop } = await startControlPlane({ ...options, port: await freePort() });
    await installBasics(access, customResourceDefinitions()).finally(stop);
    await rename(controlPlaneLayoutOf(dir).etcdData, template).catch((error: unknown) => {
      // Another worker was faster.
      if (systemCode(error) !== "ENOTEMPTY" && systemCode(error) !== "EEXIST") throw error;
    });
  } finally {
    await rm(dir, { recursive: true, force: true });
  }
}
