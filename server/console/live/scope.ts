/** What a reader may see of a topic: the kinds, and for each all namespaces or some. */
import { GROUP } from "../../../src/api/group.ts";
import type { AccessQuestion } from "../../../src/console/protocol.ts";
import type { Clock } from "../../../src/util/ports.ts";
import type { ParsedTopic } from "./topics.ts";

export const RESOURCES = {
  hosts: { group: GROUP, resource: "hosts" },
  nodes: { group: "", resource: "nodes" },
  services: { group: GROUP, resource: "inferenceservices" },
  models: { group: GROUP, resource: "models" },
  replicas: { group: GROUP, resource: "inferencereplicas" },
  pods: { group: "", resource: "pods" },
} as const;

export type SeenKind = keyof typeof RESOURCES;

/** The right that shows a row. */
export interface RowRight {
  readonly kind: SeenKind;
  /** Absent for cluster-scoped kinds. */
  readonly namespace?: string;
}

export interface Scope {
  /** Equal for equal rights, whose rows are the same texts. */
  readonly key: string;
  readonly seen: ReadonlyMap<SeenKind, Seen>;
}

/** Rows without a right are for everyone who has the topic. */
export function isSeen({ seen }: Scope, right: RowRight | undefined): boolean {
  if (right === undefined) return true;
  const those = seen.get(right.kind);
  return those === "all" || (right.namespace !== undefined && (those?.has(right.namespace) ?? false));
}

/** All namespaces, or some. */
export type Seen = "all" | ReadonlySet<string>;

export interface ScopeQuestions {
  readonly mayAccess: (question: AccessQuestion) => Promise<boolean>;
  /** What the reader may list of a kind; `namespace` is the only one that matters to the topic. */
  readonly seen: (kind: SeenKind, namespace?: string) => Promise<Seen>;
}

/** The kinds of each list, and those of which the reader must see something. */
const LISTS: Readonly<
  Record<string, { readonly kinds: readonly SeenKind[]; readonly needs: readonly SeenKind[] }>
> = {
  hosts: { kinds: ["hosts", "nodes", "services"], needs: ["hosts", "nodes"] },
  services: { kinds: ["services"], needs: ["services"] },
  models: { kinds: ["models"], needs: ["models"] },
  farm: { kinds: ["hosts", "nodes", "services"], needs: ["hosts", "nodes", "services"] },
  queues: { kinds: ["services"], needs: ["services"] },
};

/** The kind of a topic of one object. */
export const NAMED = { service: "services", model: "models", host: "hosts", node: "nodes" } as const;

/** The question that a refused reader has not the right to. */
export function mainQuestion(topic: ParsedTopic): AccessQuestion {
  if (!("name" in topic)) {
    const [kind = "services"] = LISTS[topic.at]?.needs ?? [];
    return { verb: "list", ...RESOURCES[kind] };
  }
  const namespace = "namespace" in topic ? topic.namespace : undefined;
  return { verb: "get", ...RESOURCES[NAMED[topic.at]], namespace, name: topic.name };
}

function isSome(seen: Seen | undefined): boolean {
  return seen === "all" || (seen !== undefined && seen.size > 0);
}

/** Undefined without the right to the topic. Rejects as `mayAccess`. */
export async function scopeOf(topic: ParsedTopic, questions: ScopeQuestions): Promise<Scope | undefined> {
  if (!("name" in topic)) {
    const { kinds = [], needs = [] } = LISTS[topic.at] ?? {};
    const scope = await scopeOfKinds(kinds, questions);
    return needs.some((kind) => isSome(scope.seen.get(kind))) ? scope : undefined;
  }
  if (!(await questions.mayAccess(mainQuestion(topic)))) return undefined;
  switch (topic.at) {
    case "service":
      return scopeOfKinds(["replicas", "pods"], questions, topic.namespace);
    case "host":
      return scopeOfKinds(["replicas"], questions);
    case "node":
      return scopeOfKinds(["pods"], questions);
    case "model":
      return scopeOfKinds([], questions);
    default:
      return topic satisfies never;
  }
}

async function scopeOfKinds(
  kinds: readonly SeenKind[],
  questions: ScopeQuestions,
  namespace?: string,
): Promise<Scope> {
  const seen = new Map<SeenKind, Seen>();
  for (const kind of kinds) seen.set(kind, await questions.seen(kind, namespace));
  const words = [...seen].map(([kind, those]) => [kind, those === "all" ? those : [...those].sort()]);
  return { key: JSON.stringify(words), seen };
}

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
