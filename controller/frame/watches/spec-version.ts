/** Detects changes of a spec. */
import type { KubeObject } from "../../../src/kube/types.ts";

/** Changes with the spec, with a deletion, and with a new object of the same name. */
export function specVersionOf(object: KubeObject | undefined): string | undefined {
  return object && `${object.metadata.uid} ${object.metadata.generation}`;
}
