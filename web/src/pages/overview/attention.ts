/** What needs a person, across machines, services and models: worst first, equal causes together. Pure. */

import type { Attention, HostRow, ModelRow, ServiceRow, StateWord } from "../../../../src/console/rows.ts";
import { hrefOfMachine } from "../../address/to.tsx";

export interface AttentionItem {
  readonly kind: "host" | "service" | "model";
  /** Unique among all items. */
  readonly key: string;
  readonly name: string;
  readonly href: string;
  readonly attention: Attention;
  /** Key of the item that is the cause of this one. */
  readonly because?: string | undefined;
}

/** Items with one cause, and after them those that it is the cause of. The first has the words that are shown. */
export interface AttentionGroup {
  readonly key: string;
  readonly first: AttentionItem;
  readonly items: readonly AttentionItem[];
}

/** Fewer items than this are shown one by one. */
const MANY = 8;
/** Fewer equal causes than this are shown one by one. */
const GROUPED = 3;

export function attentionItems({
  hosts,
  services,
  models,
}: {
  readonly hosts: readonly HostRow[];
  readonly services: readonly ServiceRow[];
  readonly models: readonly ModelRow[];
}): readonly AttentionItem[] {
  const causes: readonly AttentionItem[] = [
    ...hosts.flatMap(({ kind, name, attention }) =>
      attention === undefined
        ? []
        : [
            {
              kind: "host" as const,
              key: `${kind}/${name}`,
              name,
              href: hrefOfMachine({ kind, name }),
              attention,
            },
          ],
    ),
    ...models.flatMap((row) => namespaced("model", row)),
  ];
  const reasons = new Map(causes.map(({ key, attention }) => [key, attention.reason]));
  const ofServices = services.flatMap((row) =>
    namespaced("service", row).map((item) => ({ ...item, because: causeOfService(row, reasons) })),
  );
  const items: AttentionItem[] = [...causes, ...ofServices];
  return items.sort(byUrgency);
}

/** The order of the items is kept. */
export function groupAttention(items: readonly AttentionItem[]): readonly AttentionGroup[] {
  const effects = Map.groupBy(items, ({ because }) => because);
  const causes = effects.get(undefined) ?? [];
  const groupOf = (key: string, equal: readonly AttentionItem[]): readonly AttentionGroup[] => {
    const all = [...equal, ...equal.flatMap((item) => effects.get(item.key) ?? [])];
    return equal.slice(0, 1).map((first) => ({ key, first, items: all }));
  };
  if (causes.length < MANY) return causes.flatMap((item) => groupOf(item.key, [item]));
  const byCause = Map.groupBy(causes, causeOf);
  const shown = new Set<string>();
  return causes.flatMap((item) => {
    const cause = causeOf(item);
    const equal = byCause.get(cause) ?? [];
    if (equal.length < GROUPED) return groupOf(item.key, [item]);
    if (shown.has(cause)) return [];
    shown.add(cause);
    return groupOf(cause, equal);
  });
}

const OF_MODEL = new Set(["ModelFailed", "ModelNotReady"]);

/** The Model or machine of a service that has the same case itself. `reasons` has those of Models and machines by key. */
function causeOfService(
  { namespace, model, hosts, attention }: ServiceRow,
  reasons: ReadonlyMap<string, string>,
): string | undefined {
  const reason = attention?.reason ?? "";
  const modelKey = `model/${namespace}/${model}`;
  if (OF_MODEL.has(reason) && reasons.has(modelKey)) return modelKey;
  const keys = [modelKey, ...hosts.flatMap((name) => [`Host/${name}`, `Node/${name}`])];
  return keys.find((key) => reasons.get(key) === reason);
}

/** A new service without status for longer than this has no controller. */
const UNREPORTED_MS = 30_000;

/** The state of a farm in which no object needs a person. `hosts` is undefined for a reader who may not see them. */
export function quietState(
  services: readonly Pick<ServiceRow, "state" | "phase" | "message" | "createdAt">[],
  hosts: readonly Pick<HostRow, "state">[] | undefined,
  nowMs: number,
): StateWord {
  if (services.length === 0) return { word: "No service asks for anything yet.", level: "idle" };
  const unreported = services.filter(
    ({ phase, message, createdAt }) =>
      phase === "Pending" && message === "" && nowMs - Date.parse(createdAt) > UNREPORTED_MS,
  ).length;
  if (unreported > 0)
    return {
      word: `The controller has not reported on ${unreported === 1 ? "a service" : `${unreported} services`}. See whether it runs: metalbridge status`,
      level: "warn",
    };
  const of = (level: StateWord["level"]) => services.filter(({ state }) => state.level === level).length;
  const [serving, resting] = [of("ok"), of("idle")];
  if (serving === services.length)
    return {
      word: serving === 1 ? "The only service is serving." : `All ${serving} services are serving.`,
      level: "ok",
    };
  if (serving === 0 && resting < services.length && hosts?.every(({ state }) => state.level !== "ok"))
    return { word: "No service is serving, and no machine is ready for new replicas.", level: "warn" };
  const isSettled = serving + resting === services.length;
  return {
    word: `${serving} of ${services.length} services are serving; the others are starting or at rest.`,
    level: isSettled ? "ok" : "busy",
  };
}

function namespaced(
  kind: "service" | "model",
  { namespace, name, attention }: Pick<ServiceRow | ModelRow, "namespace" | "name" | "attention">,
): readonly AttentionItem[] {
  if (attention === undefined) return [];
  const href = `/${kind}s/${encodeURIComponent(namespace)}/${encodeURIComponent(name)}`;
  const key = `${kind}/${namespace}/${name}`;
  return [{ kind, key, name: `${namespace}/${name}`, href, attention }];
}

function causeOf({ kind, attention: { level, reason } }: AttentionItem): string {
  return `${kind} ${level} ${reason}`;
}

/** Bad before warn, then the newest. */
function byUrgency(a: AttentionItem, b: AttentionItem): number {
  if (a.attention.level !== b.attention.level) return a.attention.level === "bad" ? -1 : 1;
  const [since = "", other = ""] = [a.attention.since, b.attention.since];
  return other.localeCompare(since) || a.key.localeCompare(b.key);
}
