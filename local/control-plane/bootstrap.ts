/** Applies the CRDs, namespaces, roles, policies and priority classes of Metalbridge at each start of a local control plane. */
import { setTimeout as pause } from "node:timers/promises";
import { priorityClasses } from "../../controller/pods/workload/priorities.ts";
import { clusterAccess } from "../../src/api/access/cluster.ts";
import { MetalbridgeError } from "../../src/api/errors.ts";
import { GROUP, NAMESPACE_HOSTS, NAMESPACE_JOIN, NAMESPACE_SYSTEM, VERSION } from "../../src/api/group.ts";
import {
  ADMISSION_POLICIES,
  ADMISSION_POLICY_BINDINGS,
  CLUSTER_ROLES,
  FLOW_SCHEMAS,
  PRIORITY_CLASSES,
  PRIORITY_LEVELS,
} from "../../src/kube/kinds.ts";
import { objectPath } from "../../src/kube/paths.ts";
import type { KubeObject } from "../../src/kube/types.ts";
import { truncate } from "../../src/util/text.ts";
import { type ApiAccess, callApi } from "./request.ts";

/** The field of a CRD that this file reads. The complete object is sent. */
export interface CrdObject {
  readonly metadata: { readonly name: string };
}

const CRDS_PATH = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const ESTABLISHED_WITHIN_MS = 60_000;
const APPLY = "application/apply-patch+yaml";

const KINDS = [
  CLUSTER_ROLES,
  ADMISSION_POLICIES,
  ADMISSION_POLICY_BINDINGS,
  PRIORITY_LEVELS,
  FLOW_SCHEMAS,
  PRIORITY_CLASSES,
];

/** The objects with their API paths. */
export function basicObjects(
  crds: readonly CrdObject[],
): readonly (readonly [path: string, object: object])[] {
  const namespace = (name: string) => ({ apiVersion: "v1", kind: "Namespace", metadata: { name } });
  const others = [...clusterAccess(), ...priorityClasses()];
  return [
    ...crds.map((crd) => [`${CRDS_PATH}/${crd.metadata.name}`, crd] as const),
    ...[NAMESPACE_HOSTS, NAMESPACE_JOIN, NAMESPACE_SYSTEM].map(
      (name) => [`/api/v1/namespaces/${name}`, namespace(name)] as const,
    ),
    ...others.map((object) => [pathOf(object), object] as const),
  ];
}

/** Resolves when every CRD is served and all other objects exist. */
export async function installBasics(access: ApiAccess, crds: readonly CrdObject[]): Promise<void> {
  await Promise.all(basicObjects(crds).map(([path, object]) => apply(access, path, object)));
  await waitUntilServed(access, crds);
}

/** Resolves when every CRD is served. */
export async function waitUntilServed(access: ApiAccess, crds: readonly CrdObject[]): Promise<void> {
  await Promise.all(crds.map((crd) => established(access, crd.metadata.name)));
}

function pathOf({ kind, metadata: { name } }: KubeObject): string {
  const known = KINDS.find((candidate) => candidate.kind === kind);
  if (known === undefined) throw new Error(`${kind} is not a known kind`);
  return objectPath(known, { name });
}

async function apply(access: ApiAccess, path: string, object: unknown): Promise<void> {
  const response = await callApi(access, {
    method: "PATCH",
    path: `${path}?fieldManager=metalbridge-up&force=true`,
    body: JSON.stringify(object),
    contentType: APPLY,
  });
  if (response.status >= 300) throw installFailed(path, response.body);
}

/**
 * Resolves when objects of the kind can be listed. For a moment after a CRD is Established, the API server still answers 429
 * with a delay of one second, which the first list of every client would have to wait for.
 */
async function established(access: ApiAccess, name: string): Promise<void> {
  const deadline = performance.now() + ESTABLISHED_WITHIN_MS;
  for (;;) {
    const response = await callApi(access, { method: "GET", path: `${CRDS_PATH}/${name}` });
    const conditions = response.status === 200 ? conditionsOf(response.body) : [];
    if (conditions.some((condition) => condition.type === "Established" && condition.status === "True")) {
      if (await isListable(access, name)) return;
    }
    const conflict = conditions.find(
      (condition) => condition.type === "NamesAccepted" && condition.status === "False",
    );
    if (conflict !== undefined) throw installFailed(name, conflict.message ?? "its names are taken");
    if (performance.now() > deadline) throw installFailed(name, "not established in time");
    await pause(25);
  }
}

/** `hosts.metalbridge.dev` is listed at /apis/metalbridge.dev/v1alpha1/hosts. */
async function isListable(access: ApiAccess, crdName: string): Promise<boolean> {
  const plural = crdName.slice(0, crdName.indexOf("."));
  const response = await callApi(access, {
    method: "GET",
    path: `/apis/${GROUP}/${VERSION}/${plural}?limit=1`,
  });
  return response.status === 200;
}

interface CrdCondition {
  readonly type: string;
  readonly status: string;
  readonly message?: string;
}

function conditionsOf(body: string): readonly CrdCondition[] {
  const object = JSON.parse(body) as { status?: { conditions?: CrdCondition[] } };
  return object.status?.conditions ?? [];
}

function installFailed(name: string, why: string): MetalbridgeError {
  return new MetalbridgeError("CrdInstallFailed", `${name}: ${truncate(why, 2_000)}`);
}
