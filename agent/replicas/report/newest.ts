/** Watch and responses show one object in any order; the newer version counts. */
import type { InferenceReplica } from "../../../src/api/inference-replica.ts";

/** The newer of two versions of one object; what cannot be compared counts as newer. */
export function newerOf(known: InferenceReplica | undefined, found: InferenceReplica): InferenceReplica {
  if (known === undefined || known.metadata.uid !== found.metadata.uid) return found;
  const before = version(known);
  const after = version(found);
  return before !== undefined && after !== undefined && after < before ? known : found;
}

function version(object: InferenceReplica): bigint | undefined {
  const text = object.metadata.resourceVersion ?? "";
  return /^\d+$/.test(text) ? BigInt(text) : undefined;
}
