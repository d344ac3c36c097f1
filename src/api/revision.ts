/** The revision of a replica: a hash of the settings that affect its engine. */
import { canonicalJson, hash } from "../util/hash.ts";
import type { ReplicaModel, ReplicaTemplate } from "./inference-replica.ts";

export type RevisionInput = Omit<ReplicaTemplate, "hostName" | "revision">;

/**
 * Hash of a template without host and revision. Facts about the weights (`gguf`, `sizeBytes`) are excluded: reading a header
 * later must not restart an engine. Absent fields are excluded, so a new optional field changes no revision.
 */
export function revisionOfTemplate(
  template: RevisionInput & Partial<Pick<ReplicaTemplate, "hostName" | "revision">>,
): string {
  const { hostName: _host, revision: _revision, model, loraAdapters, ...rest } = template;
  const draft = rest.draft && inputsOf(rest.draft);
  const projector = rest.projector && inputsOf(rest.projector);
  const adapters = loraAdapters?.map((adapter) => ({ ...adapter, model: inputsOf(adapter.model) }));
  return hash(canonicalJson({ ...rest, model: inputsOf(model), draft, projector, loraAdapters: adapters }));
}

function inputsOf(model: ReplicaModel): Omit<ReplicaModel, "gguf" | "sizeBytes"> {
  const { gguf: _gguf, sizeBytes: _sizeBytes, ...inputs } = model;
  return inputs;
}
