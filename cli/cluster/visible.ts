/** The objects of a kind that this user may list: in all namespaces, or only in that of the context. */
import { MetalbridgeError } from "../../src/api/errors.ts";
import { missingRight } from "../../src/console/missing-right.ts";
import type { Kind, KubeObject, ListOptions } from "../../src/kube/types.ts";
import type { Cluster } from "./cluster.ts";
import { explainAttempt } from "./failure.ts";

export const UNSEEN_CLAIMS =
  "the replicas of other namespaces are not counted: less memory may be free than shown, and services may be ahead in the queue";

export interface Visible<T> {
  /** Undefined if this user may list none, so that it is unknown whether there are any. */
  readonly items: readonly T[] | undefined;
  /** Selects `items`. */
  readonly selection: ListOptions;
  /** What is not among `items`, and why. */
  readonly missing?: string | undefined;
}

/**
 * With `namespace`, the objects of only that one. A namespaced kind that the user may list nowhere is a failure (ApiForbidden), as
 * is every other failed call; a kind without a namespace is then unknown.
 */
export async function listVisible<T extends KubeObject>(
  { client, namespace: own }: Cluster,
  kind: Kind<T>,
  namespace?: string,
  labelSelector?: string,
): Promise<Visible<T>> {
  const selection = kind.namespaced ? { namespace, labelSelector } : { labelSelector };
  const all = await client.list(kind, selection);
  if (all.ok) return { items: all.value.items, selection };
  if (all.error.kind === "forbidden" && !kind.namespaced) {
    const { message, remedy } = missingRight({ verb: "list", group: kind.group, resource: kind.plural });
    return { items: undefined, selection, missing: `${kind.plural} are not shown. ${message} ${remedy}` };
  }
  if (all.error.kind !== "forbidden" || namespace !== undefined)
    throw explainAttempt({ verb: "list", kind, ...selection }, all.error);
  const some = await client.list(kind, { namespace: own, labelSelector });
  if (!some.ok) throw explainAttempt({ verb: "list", kind, namespace: own }, some.error);
  const missing = `Only namespace ${own} is shown. You may not list ${kind.plural} of all namespaces; -n selects another one.`;
  return { items: some.value.items, selection: { namespace: own }, missing };
}

/** For a kind that only adds to the answer: one that the user may list nowhere is unknown too. */
export async function listIfVisible<T extends KubeObject>(
  ...asked: Parameters<typeof listVisible<T>>
): Promise<Visible<T>> {
  try {
    return await listVisible(...asked);
  } catch (error) {
    if (!(error instanceof MetalbridgeError) || error.code !== "ApiForbidden") throw error;
    const [, { plural }] = asked;
    return { items: undefined, selection: {}, missing: `${plural} are not shown: ${error.message}.` };
  }
}

/** The notes of several kinds. Kinds of one namespace need only one. */
export function missingOf(...all: readonly Visible<unknown>[]): readonly string[] {
  const byPlace = new Map(
    all.flatMap(({ missing, selection }) =>
      missing === undefined ? [] : [[selection.namespace ?? missing, missing] as const],
    ),
  );
  return [...byPlace.values()];
}
