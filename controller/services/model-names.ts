/** The model names of a service: which claims are recorded in its status, and the condition ModelNamesAccepted. */
import type { ConditionUpdate } from "../../src/api/conditions.ts";
import { defaultRemedy } from "../../src/api/errors.ts";
import type { InferenceService, InferenceServiceStatus } from "../../src/api/inference-service/index.ts";
import {
  otherNamespaceOf,
  type PublicNames,
  serviceNamesOf,
  type TakenName,
} from "../../src/gateway/public-names.ts";
import { NAMESPACES } from "../../src/kube/kinds.ts";
import type { Recheck } from "../../src/kube/queue.ts";
import { setBounded } from "../../src/util/bounded-map.ts";
import { isoSeconds } from "../../src/util/iso-seconds.ts";
import { compareText } from "../../src/util/text.ts";
import type { ControllerPorts } from "../frame/ports.ts";

const TYPE = "ModelNamesAccepted";
/** Namespaces are not watched. One that exists is read again after this time. */
const NAMESPACE_RECHECK_MS = 5 * 60_000;
const FAILED_READ_RECHECK_MS = 10_000;
const NAMESPACES_MAX = 4_096;

type Names = Pick<PublicNames, "namesOf" | "sharesOf" | "takenFrom" | "heldSince">;

/** Undefined if the read has failed. */
export type NamespaceExists = (namespace: string) => boolean | undefined;

export interface PlannedNames extends Partial<Recheck> {
  readonly modelNames: NonNullable<InferenceServiceStatus["modelNames"]>;
  /** Empty for a service that has its own name and asks for no other. */
  readonly conditions: ConditionUpdate[];
}

/** A name that may belong to another namespace. */
interface ForeignName {
  readonly name: string;
  readonly namespace: string;
}

/** Names that the controller has to accept or refuse. The full name of an existing service is refused without another look. */
export function undecidedNames(publicNames: Names, service: InferenceService): readonly ForeignName[] {
  const { key, namespace: own, claims } = serviceNamesOf(service);
  const owned = fullNamesOfOthers(publicNames, key);
  const recorded = new Set(service.status?.modelNames?.map(({ name }) => name));
  return claims.flatMap(({ name }) => {
    const namespace = otherNamespaceOf(name, own);
    const isDecided = namespace === undefined || recorded.has(name) || owned.has(name);
    return isDecided ? [] : [{ name, namespace }];
  });
}

/** `service` has the last written status. */
export function planModelNames(
  publicNames: Names,
  service: InferenceService,
  exists: NamespaceExists,
  nowIso: string,
): PlannedNames {
  const { key, claims } = serviceNamesOf(service);
  const undecided = undecidedNames(publicNames, service);
  const isUnknown = undecided.some(({ namespace }) => exists(namespace) === undefined);
  const refused = undecided.filter(({ namespace }) => exists(namespace) !== false);
  const lost = new Set([...fullNamesOfOthers(publicNames, key), ...refused.map(({ name }) => name)]);
  const modelNames = claims
    .filter(({ name }) => !lost.has(name))
    .map(({ name, since }) => ({ name, since: since ?? after(publicNames.heldSince(name), nowIso) }))
    .sort((one, other) => compareText(one.name, other.name));
  const conditions = conditionsOf(publicNames, service, refused);
  if (refused.length === 0) return { modelNames, conditions };
  return {
    modelNames,
    conditions,
    recheckAfterMs: isUnknown ? FAILED_READ_RECHECK_MS : NAMESPACE_RECHECK_MS,
  };
}

/** Claimed names that are the full name of another service. */
function fullNamesOfOthers(publicNames: Names, key: string): ReadonlySet<string> {
  return new Set(publicNames.takenFrom(key).flatMap(({ name, by }) => (name === by ? [name] : [])));
}

/** The time of a new claim: later than the claim of the holder, also within one second and after a step of the clock. */
function after(holderSince: string | undefined, nowIso: string): string {
  if (holderSince === undefined || holderSince < nowIso) return nowIso;
  return isoSeconds(Date.parse(holderSince) + 1_000);
}

function conditionsOf(
  publicNames: Names,
  service: InferenceService,
  refused: readonly ForeignName[],
): ConditionUpdate[] {
  const { key, claims } = serviceNamesOf(service);
  const isRefused = (name: string) => refused.some((refusal) => refusal.name === name);
  const taken = publicNames.takenFrom(key).filter(({ name }) => !isRefused(name));
  if (taken.length === 0 && !claims.some(({ isRequested }) => isRequested)) return [];
  const held = new Set(publicNames.namesOf(key));
  // A name that is accepted in this pass is not in the table yet.
  const isOffered = (name: string) => held.has(name) || publicNames.sharesOf(name).length === 0;
  const offered = claims.flatMap(({ name }) => (!isRefused(name) && isOffered(name) ? [name] : []));
  const message = [
    ...taken.map((one) => ownerText(one, key)),
    ...refused.map((one) => refusalText(one, key)),
    `gateways offer ${key} as ${[key, ...offered].join(", ")}`,
  ].join("; ");
  const reasons = [
    ...(taken.some(({ isRequested }) => isRequested) ? (["ModelNameTaken"] as const) : []),
    ...(refused.length > 0 ? (["ModelNameReserved"] as const) : []),
  ];
  const [reason] = reasons;
  if (reason === undefined) return [{ type: TYPE, status: "True", reason: "NamesAccepted", message }];
  const toDo = reasons.map((one) => defaultRemedy(one).summary).join("; ");
  return [{ type: TYPE, status: "False", reason, message: `${message}. To do: ${toDo}` }];
}

function ownerText({ name, by }: TakenName, key: string): string {
  const why = name === by ? "whose full name it is" : "which has claimed it for longer";
  return `the model name ${name} of ${key} belongs to ${by}, ${why}`;
}

function refusalText({ name, namespace }: ForeignName, key: string): string {
  return `the model name ${name} of ${key} is reserved for services of the namespace ${namespace}`;
}

export interface NamespaceReader {
  /** Reads the namespaces and answers for them. */
  readonly read: (namespaces: readonly string[]) => Promise<NamespaceExists>;
}

export function createNamespaceReader({
  client,
  clock,
  log,
}: Pick<ControllerPorts, "client" | "clock" | "log">): NamespaceReader {
  /**
   * When a namespace was found. Each pass over a service with a refused name would read it again. Missing ones are always read:
   * an old answer would accept the names of a namespace that has just been created.
   */
  const found = new Map<string, number>();
  const exists = async (name: string): Promise<boolean | undefined> => {
    const nowMs = clock.monotonicMs();
    const foundMs = found.get(name);
    if (foundMs !== undefined && nowMs - foundMs < NAMESPACE_RECHECK_MS) return true;
    const result = await client.get(NAMESPACES, { name });
    if (result.ok) setBounded(found, name, nowMs, NAMESPACES_MAX);
    else found.delete(name);
    if (result.ok || result.error.kind === "notFound") return result.ok;
    log.warn({ namespace: name, reason: result.error.reason }, "cannot read a namespace for a model name");
    return undefined;
  };
  return {
    read: async (namespaces) => {
      const names = [...new Set(namespaces)];
      const states = new Map(
        await Promise.all(names.map(async (name) => [name, await exists(name)] as const)),
      );
      return (name) => states.get(name);
    },
  };
}
