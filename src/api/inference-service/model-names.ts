/** Model names that a service asks for, in addition to its own. Pure. */
import { compareText } from "../../util/text.ts";
import type { InferenceServiceSpec } from "./spec.ts";

/** A model name, with its share of the requests if several services share the name. */
export interface RequestedName {
  readonly name: string;
  readonly weight?: number | undefined;
}

/** The names in an order that does not depend on the list, which is a map. */
export function sortedNames(spec: Pick<InferenceServiceSpec, "endpoint">): readonly string[] {
  return requestedNames(spec)
    .map(({ name }) => name)
    .sort(compareText);
}

/** Names in spec.endpoint.modelNames and in gateway.modelName, each once. */
export function requestedNames({
  endpoint,
}: Pick<InferenceServiceSpec, "endpoint">): readonly RequestedName[] {
  const { modelNames = [], gateway } = endpoint;
  const name = gateway?.enabled === false ? undefined : gateway?.modelName;
  const isListed = name === undefined || modelNames.some((listed) => listed.name === name);
  return isListed ? modelNames : [...modelNames, { name }];
}
