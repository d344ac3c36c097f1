/** Watches as wide as the server's own credentials allow: of all namespaces, of one, or of none. */
import type { ReviewOwnAccess } from "../src/kube/review/self-reviews.ts";
import type { KubeObject, ListOptions, Reflector } from "../src/kube/types.ts";
import { waitMs } from "../src/kube/wait.ts";
import { type ReflectorOptions, startReflector } from "../src/kube/watch/reflector.ts";
import { backoffMs } from "../src/util/backoff.ts";

interface Visible<T extends KubeObject>
  extends Pick<Reflector<T>, "get" | "list" | "isSynced" | "whenSynced"> {
  /**
   * False if the objects of the namespace, or without one those of the whole watch, may not be listed: it is unknown which there
   * are. True while the rights are not known yet.
   */
  readonly covers: (namespace?: string) => boolean;
}

/** The rights of the credentials, and the namespace that is watched without the right to all. */
export interface OwnRights {
  readonly review: ReviewOwnAccess;
  readonly namespace: string;
}

const RETRY = { firstMs: 250, capMs: 30_000 };

/** Without `own`, the whole watch is started, whatever the rights. */
export function startVisible<T extends KubeObject>(
  options: ReflectorOptions<T>,
  own: OwnRights | undefined,
): Visible<T> {
  if (own === undefined) return { ...startReflector(options), covers: () => true };
  let reflector: Reflector<T> | undefined;
  let covers = (_?: string): boolean => true;
  const started = selectionOf(options, own).then((selection) => {
    if (selection === undefined) covers = () => false;
    else if (selection.namespace !== options.namespace) covers = (one) => one === selection.namespace;
    if (selection !== undefined) reflector = startReflector({ ...options, ...selection });
  });
  return {
    get: (key) => reflector?.get(key),
    list: () => reflector?.list() ?? [],
    isSynced: () => reflector?.isSynced() ?? false,
    whenSynced: () => started.then(() => reflector?.whenSynced()),
    covers: (namespace) => covers(namespace),
  };
}

/** What may be listed; undefined for nothing. Asks until the API server answers, or `signal` is aborted. */
async function selectionOf<T extends KubeObject>(
  { connection, kind, namespace, clock, signal, onFailure }: ReflectorOptions<T>,
  own: OwnRights,
): Promise<Pick<ListOptions, "namespace"> | undefined> {
  const places = kind.namespaced && namespace === undefined ? [undefined, own.namespace] : [namespace];
  for (let failures = 1; ; failures += 1) {
    const access = { group: kind.group, resource: kind.plural };
    const ask = (verb: string, place?: string) =>
      own.review(connection, "own", { ...access, verb, namespace: place });
    const verdicts = await Promise.all(
      places.map((place) => Promise.all(["list", "watch"].map((verb) => ask(verb, place)))),
    );
    const failed = verdicts.flat().find((verdict) => verdict.at === "failed");
    if (failed === undefined || signal.aborted) {
      const index = verdicts.findIndex((both) => both.every(({ at }) => at === "allowed"));
      return index < 0 ? undefined : { namespace: places[index] };
    }
    onFailure?.(failed.failure);
    await waitMs(clock, backoffMs(failures, RETRY), signal);
  }
}
