/** The revision of a replica: a hash of what makes it run the way it does. */
import { canonicalJson, hash } from "../util/hash.ts";
import type { ReplicaModel, ReplicaTemplate } from "./inference-replica.ts";

export type RevisionInput = Omit<ReplicaTemplate, "hostName" | "revision">;

/**
 * Hash of a template without host and revision. What was merely learned about the weights (`gguf`, `sizeBytes`)
 * is left out: reading a header later must not restart an engine. Absent fields do not count, so a new optional
 * field changes no revision.
 */
export function revisionOfTemplate(
  template: RevisionInput & Partial<Pick<ReplicaTemplate, "hostName" | "revision">>,
): string {
  const { hostName: _host, revision: _revision, model, draft, loraAdapters, ...rest } = template;
  const draftInputs = draft === undefined ? undefined : inputsOf(draft);
  const adapters = loraAdapters?.map((adapter) => ({ ...adapter, model: inputsOf(adapter.model) }));
  return hash(canonicalJson({ ...rest, model: inputsOf(model), draft: draftInputs, loraAdapters: adapters }));
}

function inputsOf(model: ReplicaModel): Omit<ReplicaModel, "gguf" | "sizeBytes"> {
  const { gguf: _gguf, sizeBytes: _sizeBytes, ...inputs } = model;
  return inputs;
}
