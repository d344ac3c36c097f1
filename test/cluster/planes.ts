/**
 * Private control planes. A start costs two to three seconds of a core, so a worker keeps those that tests give back intact, and
 * brings what they store back to what it was before the next test gets them.
 */
import { existsSync, rmSync } from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { waitUntilServed } from "../../local/control-plane/bootstrap.ts";
import { readPartsConfig } from "../../local/control-plane/config.ts";
import { findClusterParts } from "../../local/control-plane/parts.ts";
import { callApi } from "../../local/control-plane/request.ts";
import { type ControlPlane, startControlPlane } from "../../local/control-plane/start.ts";
import { controlPlaneLayoutOf } from "../../local/control-plane/state/layout.ts";
import { customResourceDefinitions } from "../../src/api/crd/definitions.ts";
import { freePort } from "../bed/ports.ts";
import { readStored, restoreStored, type Stored } from "./etcd.ts";
import { quietLog } from "./quiet-log.ts";
import { copyTemplate } from "./template.ts";

export interface PrivateClusterOptions {
  /** Installs our CRDs and namespaces; true by default. */
  readonly crds?: boolean;
  /** True: with all controllers of kube-controller-manager. A list: with these, which costs a third less CPU time. */
  readonly controllerManager?: boolean | readonly string[];
  /** Binds pods to nodes, which linux-cluster.ts has. */
  readonly scheduler?: boolean;
  /** A KubeSchedulerConfiguration, for a scheduler that is started with it. */
  readonly schedulerConfig?: Readonly<Record<string, unknown>>;
  /** The folder of an earlier private cluster, which comes back with its data. It is kept on disposal. */
  readonly dir?: string;
  readonly bindAddress?: string;
  /** More flags of kube-apiserver. */
  readonly apiServerArgs?: readonly string[];
  /** More flags of kube-controller-manager. */
  readonly controllerManagerArgs?: readonly string[];
}

/** Controllers for a cluster without pods: namespaces, owner references and service accounts work as everywhere. */
export const WITHOUT_PODS: readonly string[] = [
  "namespace-controller",
  "garbage-collector-controller",
  "serviceaccount-controller",
];

/** The same, and ResourceQuotas are counted. */
export const WITH_QUOTAS: readonly string[] = [...WITHOUT_PODS, "resourcequota-controller"];

/** The same with slices of Services, for traffic through kube-proxy. */
export const WITH_SLICES: readonly string[] = [...WITH_QUOTAS, "endpointslice-controller"];

/** For pods on simulated nodes. One list for all files, so that they share the planes that a worker keeps. */
export const WITH_PODS: readonly string[] = [
  ...WITH_SLICES,
  "deployment-controller",
  "replicaset-controller",
  "statefulset-controller",
  "job-controller",
  "node-lifecycle-controller",
  "persistentvolume-binder-controller",
  "persistentvolumeclaim-protection-controller",
  "resourceclaim-controller",
  "disruption-controller",
];

export interface Plane {
  readonly dir: string;
  readonly controlPlane: ControlPlane;
}

interface KeptPlane extends Plane {
  readonly key: string;
  readonly stored: ReadonlyMap<string, Stored>;
}

/** Idle control planes that a worker keeps. Each takes 600 MB, and a hundredth of a core. */
const MAX_KEPT = 1;

const ADMISSION = /^\/registry\/(validating|mutating)/;

const kept: KeptPlane[] = [];

/** `giveBack` stops it, or keeps it for later tests where it `isIntact`. */
export async function borrowPlane(
  options: PrivateClusterOptions,
): Promise<{ readonly plane: Plane; readonly giveBack: (isIntact: boolean) => Promise<void> }> {
  if (options.dir !== undefined || options.bindAddress !== undefined) {
    const plane = await startPlane(options, options.dir);
    return { plane, giveBack: () => stopPlane(plane, options.dir !== undefined) };
  }
  const key = JSON.stringify(options);
  const plane = (await takeKept(key)) ?? (await startKeepable(key, options));
  return {
    plane,
    giveBack: async (isIntact) => {
      if (!isIntact) return stopPlane(plane);
      kept.push(plane);
      const surplus = kept.length > MAX_KEPT ? kept.shift() : undefined;
      if (surplus !== undefined) await stopPlane(surplus);
    },
  };
}

async function takeKept(key: string): Promise<KeptPlane | undefined> {
  const found = kept.findLast((one) => one.key === key);
  if (found === undefined) return undefined;
  kept.splice(kept.indexOf(found), 1);
  const { controlPlane, stored } = found;
  const keys = [...(await readStored(controlPlane.etcdSocket)).keys()];
  // The API server enforces a policy for a moment after its deletion.
  if (keys.some((one) => ADMISSION.test(one) && !stored.has(one))) {
    await stopPlane(found);
    return undefined;
  }
  await restoreStored(controlPlane.etcdSocket, stored, isLeftAlone);
  // A list that is consistent shows that the API server has seen it.
  await callApi(controlPlane.access, { method: "GET", path: "/api/v1/namespaces" });
  return found;
}

async function startKeepable(key: string, options: PrivateClusterOptions): Promise<KeptPlane> {
  const plane = await startPlane(options);
  return { ...plane, key, stored: await readStored(plane.controlPlane.etcdSocket) };
}

/** What the control plane's own programs write, at any time: their accounts, their Leases, and what each namespace gets. */
export function isLeftAlone(key: string): boolean {
  return (
    /^\/registry\/([^/]+\/)?[^/]+\/kube-system\//.test(key) ||
    /^\/registry\/(masterleases|apiregistration\.k8s\.io)\//.test(key) ||
    /^\/registry\/(serviceaccounts\/[^/]+\/default|configmaps\/[^/]+\/kube-root-ca\.crt)$/.test(key)
  );
}

async function startPlane(options: PrivateClusterOptions, givenDir?: string): Promise<Plane> {
  const dir = givenDir ?? (await mkdtemp(path.join(tmpdir(), "metalbridge-private-")));
  const isReturning = existsSync(controlPlaneLayoutOf(dir).settings);
  const hasCrds = options.crds ?? true;
  const parts = findClusterParts(readPartsConfig());
  if (hasCrds && !isReturning) await copyTemplate(parts, dir);
  const { controllerManager = false, controllerManagerArgs = [] } = options;
  const controllers =
    typeof controllerManager === "boolean" ? [] : [`--controllers=${controllerManager.join(",")}`];
  const controlPlane = await startControlPlane({
    dir,
    // One that comes back has a port already, and waits for it.
    port: isReturning ? undefined : await freePort(options.bindAddress),
    parts,
    isThrowaway: true,
    log: quietLog,
    controllerManager: controllerManager !== false,
    scheduler: options.scheduler ?? false,
    schedulerConfig: options.schedulerConfig,
    bindAddress: options.bindAddress,
    apiServerArgs: options.apiServerArgs,
    controllerManagerArgs: [...controllers, ...controllerManagerArgs],
  });
  const plane = { dir, controlPlane };
  if (givenDir === undefined) process.once("exit", () => rmSync(dir, { recursive: true, force: true }));
  if (hasCrds) {
    await waitUntilServed(controlPlane.access, customResourceDefinitions()).catch((error) =>
      stopPlane(plane, givenDir !== undefined).then(() => Promise.reject(error)),
    );
  }
  return plane;
}

async function stopPlane({ controlPlane, dir }: Plane, keepsData = false): Promise<void> {
  await controlPlane.stop();
  if (!keepsData) await rm(dir, { recursive: true, force: true });
}
