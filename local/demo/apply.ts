/** Applies the manifests of the demo and preserves changes of the user, which server-side apply reports as conflicts. */
import { HOSTS, INFERENCE_SERVICES, MODELS } from "../../src/api/kinds.ts";
import { explainFailure } from "../../src/kube/errors.ts";
import type { Kind, KubeClient, KubeObject } from "../../src/kube/types.ts";
import { isAddressWithin } from "../../src/util/ip-address.ts";
import type { DemoEngine } from "./engine.ts";
import type { AppliedObjects } from "./judge.ts";
import type { DemoManifests } from "./manifests.ts";

const MANAGER = "metalbridge-demo";

export interface AppliedManifests {
  readonly applied: AppliedObjects;
  /** Fields with the values of the user, such as `InferenceService spec.replicas`. */
  readonly preserved: readonly string[];
}

/** Options of the command line override changes of the user in the objects. */
export async function applyManifests(
  client: KubeClient,
  { model, service }: DemoManifests,
  options: { readonly model?: string; readonly engine: DemoEngine },
): Promise<AppliedManifests> {
  const chosenSource = options.model === undefined ? [] : [".spec.source"];
  const chosenRuntime = options.engine === "llamacpp" ? [] : [".spec.runtime"];
  const first = await applyPreserving(client, MODELS, model, chosenSource);
  const second = await applyPreserving(client, INFERENCE_SERVICES, service, chosenRuntime);
  return {
    applied: { model: first.object, service: second.object },
    preserved: [...first.preserved, ...second.preserved],
  };
}

async function applyPreserving<T extends KubeObject>(
  client: KubeClient,
  kind: Kind<T>,
  object: T,
  chosen: readonly string[],
): Promise<{ readonly object: T; readonly preserved: readonly string[] }> {
  const first = await client.apply(kind, object, { manager: MANAGER, isForced: false });
  if (first.ok) return { object: first.value.object, preserved: [] };
  const { conflictFields } = first.error;
  if (conflictFields === undefined) throw explainFailure(first.error);
  const preserved = conflictFields.filter((field) => !chosen.includes(field));
  const forced = await client.apply(kind, withoutFields(object, preserved), { manager: MANAGER });
  if (!forced.ok) throw explainFailure(forced.error);
  const names = preserved.map((field) => `${kind.kind} ${field.slice(1)}`);
  return { object: forced.value.object, preserved: names };
}

/**
 * The demo registers this machine at its address, and again when it has another address, such as in another network. Networks of
 * `spec.addresses` stay. Returns whether the Host was changed.
 */
export async function updateHostAddress(
  client: KubeClient,
  hostName: string,
  address: string,
): Promise<boolean> {
  const ref = { name: hostName };
  const host = await client.get(HOSTS, ref);
  if (!host.ok && host.error.kind !== "notFound") throw explainFailure(host.error);
  const addresses = host.ok ? host.value.spec.addresses : undefined;
  if (addresses === undefined || isAddressWithin(address, addresses)) return false;
  const networks = addresses.filter((one) => one.includes("/"));
  const operation = { op: "replace", path: "/spec/addresses", value: [...networks, address] } as const;
  const patched = await client.jsonPatch(HOSTS, ref, [operation]);
  if (!patched.ok) throw explainFailure(patched.error);
  return true;
}

/** `fields` are paths from the API server, such as `.spec.endpoint.port`. A path into a list (with `[`) removes the whole list. */
export function withoutFields<T extends object>(object: T, fields: readonly string[]): T {
  const copy = structuredClone(object);
  for (const field of fields) {
    const path = field.replace(/\[.*$/s, "").split(".").slice(1);
    const last = path.pop();
    let at: unknown = copy;
    for (const name of path) at = isRecord(at) ? at[name] : undefined;
    if (last !== undefined && isRecord(at)) delete at[last];
  }
  return copy;
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
