/** Applies the demo's manifests and keeps what the user has changed since: a field has the manager that last set it. */
import { INFERENCE_SERVICES, MODELS } from "../../src/api/kinds.ts";
import { explainFailure } from "../../src/kube/errors.ts";
import type { Kind, KubeClient, KubeObject } from "../../src/kube/types.ts";
import type { DemoEngine } from "./engine.ts";
import type { AppliedObjects } from "./judge.ts";
import type { DemoManifests } from "./manifests.ts";

const MANAGER = "metalbridge-demo";

export interface AppliedManifests {
  readonly applied: AppliedObjects;
  /** Fields left as the user has set them, such as `InferenceService spec.replicas`. */
  readonly kept: readonly string[];
}

/** What the command line names wins over what the user has changed in the objects. */
export async function applyManifests(
  client: KubeClient,
  { model, service }: DemoManifests,
  options: { readonly model?: string; readonly engine: DemoEngine },
): Promise<AppliedManifests> {
  const chosenSource = options.model === undefined ? [] : [".spec.source"];
  const chosenRuntime = options.engine === "llamacpp" ? [] : [".spec.runtime"];
  const first = await applyKeeping(client, MODELS, model, chosenSource);
  const second = await applyKeeping(client, INFERENCE_SERVICES, service, chosenRuntime);
  return {
    applied: { model: first.object, service: second.object },
    kept: [...first.kept, ...second.kept],
  };
}

async function applyKeeping<T extends KubeObject>(
  client: KubeClient,
  kind: Kind<T>,
  object: T,
  chosen: readonly string[],
): Promise<{ readonly object: T; readonly kept: readonly string[] }> {
  const asked = await client.apply(kind, object, { manager: MANAGER, isForced: false });
  if (asked.ok) return { object: asked.value.object, kept: [] };
  const { conflictFields } = asked.error;
  if (conflictFields === undefined) throw explainFailure(asked.error);
  const kept = conflictFields.filter((field) => !chosen.includes(field));
  const forced = await client.apply(kind, withoutFields(object, kept), { manager: MANAGER });
  if (!forced.ok) throw explainFailure(forced.error);
  return { object: forced.value.object, kept: kept.map((field) => `${kind.kind} ${field.slice(1)}`) };
}

/** `fields` as the API server names them: `.spec.endpoint.port`. Of a list, which has a `[` there, the whole stays out. */
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
