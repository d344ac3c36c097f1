/** What a reader may list, found out once for all topics and streams of the reader. */
import type { Clock } from "../../../src/util/ports.ts";
import { RESOURCES, type ScopeQuestions, type Seen, type SeenKind } from "./scope.ts";

/** Topics and streams that ask within this time share the answer. Shorter than a beat, so that each check asks again. */
const SHARED_MS = 10_000;
/**
 * A refused namespace is asked about again after this time: a reader with one of 300 namespaces costs at most 300 questions
 * per kind and minute, however many topics and streams are open. A new right shows at most this much later.
 */
const REFUSED_MS = 60_000;
/** Leaves most of the reader's connection to what the pages ask. */
const MAX_QUESTIONS = 4;
const NOTHING: ReadonlySet<string> = new Set();

export interface ReaderRightsOptions {
  readonly mayAccess: ScopeQuestions["mayAccess"];
  /** Namespaces that have objects. */
  readonly namespaces: () => readonly string[];
  readonly clock: Pick<Clock, "monotonicMs">;
}

/** Rejects as `mayAccess`. */
export function createReaderRights({
  mayAccess,
  namespaces,
  clock,
}: ReaderRightsOptions): ScopeQuestions["seen"] {
  const refused = new Map<string, number>();
  const shared = new Map<string, { readonly seen: Promise<Seen>; readonly untilMs: number }>();

  /** Questions about namespaces are only asked without the right to all of them. */
  const review = async (kind: SeenKind, those: readonly string[]): Promise<Seen> => {
    const question = { verb: "list", ...RESOURCES[kind] };
    if (await mayAccess(question)) return "all";
    if (kind === "hosts" || kind === "nodes") return NOTHING;
    const allowed = new Set<string>();
    const open = those.filter(
      (namespace) => (refused.get(`${kind}/${namespace}`) ?? 0) <= clock.monotonicMs(),
    );
    const ask = async (): Promise<void> => {
      for (let namespace = open.pop(); namespace !== undefined; namespace = open.pop())
        if (await mayAccess({ ...question, namespace })) allowed.add(namespace);
        else refused.set(`${kind}/${namespace}`, clock.monotonicMs() + REFUSED_MS);
    };
    await Promise.all(Array.from({ length: MAX_QUESTIONS }, ask));
    return allowed;
  };

  return (kind, namespace) => {
    const key = namespace === undefined ? kind : `${kind}/${namespace}`;
    const known = shared.get(key);
    const nowMs = clock.monotonicMs();
    if (known !== undefined && nowMs < known.untilMs) return known.seen;
    const seen = review(kind, namespace === undefined ? namespaces() : [namespace]);
    // A failure is not shared with those that ask later.
    seen.catch(() => shared.delete(key));
    shared.set(key, { seen, untilMs: nowMs + SHARED_MS });
    return seen;
  };
}
