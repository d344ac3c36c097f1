/**
 * Reflectors that list on demand, and only the kinds that were written: a test knows when its controller has seen
 * what is stored, and no socket stays open.
 */

import type { KubeConnection } from "../../src/kube/client/connect.ts";
import { listPages } from "../../src/kube/client/list-pages.ts";
import { REASON_KIND_NOT_INSTALLED } from "../../src/kube/errors.ts";
import { collectionPath } from "../../src/kube/paths.ts";
import type { ApiResult, KubeObject, Reflector } from "../../src/kube/types.ts";
import type { ReflectorOptions, startReflector } from "../../src/kube/watch/reflector.ts";
import { createStore } from "../../src/kube/watch/store.ts";

const LIST_TIMEOUT_MS = 60_000;

export interface Snapshots {
  readonly startReflector: typeof startReflector;
  /** The same connection; what is written through it is listed by the next `refresh`. */
  readonly tracked: (connection: KubeConnection) => KubeConnection;
  /** Lists what was written since the last time and passes on the changes. False if there was nothing to list. */
  readonly refresh: () => Promise<boolean>;
}

interface Snapshot {
  readonly path: string;
  readonly signal: AbortSignal;
  /** Resolves with a function that passes on the changes. */
  readonly list: (isEmpty?: boolean) => Promise<() => void>;
}

/** `empty` has the lists that are empty unless their kind was written, and gets those that are. */
export function createSnapshots(empty: Set<string>): Snapshots {
  let snapshots: Snapshot[] = [];
  const written = new Set<string>();
  const everWritten = new Set<string>();
  /** First lists, which begin with the start. */
  let starting: Promise<void>[] = [];
  return {
    startReflector: <T extends KubeObject>(options: ReflectorOptions<T>): Reflector<T> => {
      const { snapshot, reflector } = createSnapshot(options);
      const { list, path } = snapshot;
      const { namespace, labelSelector, fieldSelector } = options;
      const id = [path, namespace, labelSelector, fieldSelector].join(" ");
      const isUnwritten = !everWritten.has(path);
      const first = async () => {
        const passOn = await list(isUnwritten && empty.has(id));
        passOn();
        if (isUnwritten && reflector.isSynced() && reflector.list().length === 0) empty.add(id);
      };
      snapshots.push(snapshot);
      starting.push(first());
      return reflector;
    },
    tracked: (connection) => ({
      ...connection,
      request: async (request) => {
        const answer = await connection.request(request);
        if (request.method !== "GET")
          for (const kinds of [written, everWritten]) kinds.add(kindPathOf(request.path));
        return answer;
      },
    }),
    refresh: async () => {
      const first = starting;
      starting = [];
      await Promise.all(first);
      snapshots = snapshots.filter(({ signal }) => !signal.aborted);
      const due = snapshots.filter(({ path }) => written.has(path));
      written.clear();
      for (const passOn of await Promise.all(due.map(({ list }) => list()))) passOn();
      return due.length > 0 || first.length > 0;
    },
  };
}

function createSnapshot<T extends KubeObject>(options: ReflectorOptions<T>) {
  const { connection, kind, signal, clock, onChange } = options;
  const store = createStore<T>();
  const synced = Promise.withResolvers<void>();
  let lastActivityMs: number | undefined;
  const list = async (isEmpty = false): Promise<() => void> => {
    const listed = isEmpty
      ? ({ ok: true, value: { items: [], resourceVersion: "" } } as const)
      : await listPages(connection, kind, { ...options, timeoutMs: LIST_TIMEOUT_MS });
    return () => {
      if (!signal.aborted) passOn(listed);
    };
  };
  const passOn = (listed: ApiResult<{ readonly items: readonly T[] }>): void => {
    if (!listed.ok) {
      options.onFailure?.(listed.error);
      if (listed.error.reason === REASON_KIND_NOT_INSTALLED) return;
      throw new Error(`list ${kind.plural}: ${listed.error.message}`);
    }
    const isFirst = lastActivityMs === undefined;
    lastActivityMs = clock.monotonicMs();
    for (const { key, object, before } of store.replaceAll(listed.value.items)) onChange(key, object, before);
    options.onListed?.();
    if (!isFirst) return;
    options.onSynced?.();
    synced.resolve();
  };
  const reflector: Reflector<T> = {
    get: store.get,
    list: store.list,
    isSynced: () => lastActivityMs !== undefined,
    whenSynced: () => synced.promise,
    lastActivityMs: () => lastActivityMs,
    interruptions: () => 0,
    relist: () => undefined,
    retryWithin: () => undefined,
  };
  return { snapshot: { path: collectionPath(kind, undefined), signal, list }, reflector };
}

/** The path of all objects of the kind that a request is about. */
function kindPathOf(path: string): string {
  const everywhere = path.replace(/\/namespaces\/[^/?]+(?=\/)/, "");
  return everywhere.match(/^\/(?:api|apis\/[^/]+)\/[^/]+\/[^/?]+/)?.[0] ?? everywhere;
}
