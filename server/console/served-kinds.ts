/** Requests to the API server that the console passes on: the kinds and verbs that its pages use. Pure. */
import { MetalbridgeError } from "../../src/api/errors.ts";
import { GROUP, LABEL_GATEWAY_KEY, LABEL_USAGE } from "../../src/api/group.ts";
import {
  BACKEND_RUNTIMES,
  HOST_JOIN_REQUESTS,
  HOSTS,
  INFERENCE_REPLICAS,
  INFERENCE_SERVICES,
  MODELS,
} from "../../src/api/kinds.ts";

type Verb = "get" | "list" | "create" | "update" | "patch" | "delete";

export interface ServedRequest {
  readonly verb: Verb;
  readonly resource: string;
  /** Path and query for the API server. */
  readonly path: string;
  /** Neither stored nor a dry run: refused in read-only mode. */
  readonly isChange: boolean;
}

interface ServedKind {
  readonly verbs: readonly Verb[];
  readonly subresources?: Readonly<Record<string, readonly Verb[]>>;
  /** Only objects with this label are listed. */
  readonly label?: string;
  /** Creates a review, which is not stored. */
  readonly isReview?: boolean;
}

const READ = ["get", "list"] as const;
const REVIEW: ServedKind = { verbs: ["create"], isReview: true };
const OURS: ServedKind = {
  verbs: [...READ, "create", "update", "patch", "delete"],
  subresources: { status: ["get"], scale: ["get", "update", "patch"] },
};

const OUR_KINDS = [
  ...[MODELS, INFERENCE_SERVICES, INFERENCE_REPLICAS],
  ...[BACKEND_RUNTIMES, HOSTS, HOST_JOIN_REQUESTS],
];

/** By `group/resource`. Each is named: `watch` in place of a resource would be a request without an end. */
const KINDS: Readonly<Record<string, ServedKind>> = {
  ...Object.fromEntries(OUR_KINDS.map(({ plural }) => [`${GROUP}/${plural}`, OURS])),
  "/namespaces": { verbs: READ },
  "/nodes": { verbs: [...READ, "patch"] },
  "/pods": { verbs: READ, subresources: { log: ["get"] } },
  "/events": { verbs: READ },
  "events.k8s.io/events": { verbs: READ },
  "apps/controllerrevisions": { verbs: READ },
  // The one of the leader election shows whether a controller leads.
  "coordination.k8s.io/leases": { verbs: ["get"] },
  "/configmaps": { verbs: ["list"], label: LABEL_USAGE },
  "/secrets": { verbs: ["list", "create"], label: LABEL_GATEWAY_KEY },
  "authorization.k8s.io/selfsubjectaccessreviews": REVIEW,
  "authorization.k8s.io/selfsubjectrulesreviews": REVIEW,
  "authentication.k8s.io/selfsubjectreviews": REVIEW,
};

const PARAMETERS = new Set([
  ...["limit", "continue", "labelSelector", "fieldSelector", "resourceVersion", "resourceVersionMatch"],
  ...["dryRun", "fieldManager", "fieldValidation", "force", "propagationPolicy", "gracePeriodSeconds"],
  ...["container", "tailLines", "limitBytes", "sinceSeconds", "sinceTime", "previous", "timestamps"],
]);
const VERBS: Readonly<Record<string, Verb>> = { PUT: "update", PATCH: "patch", POST: "create" };
const SEGMENT = /^[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?$/;

/** `url`: path and query below /console/k8s. Throws ConsoleKindNotServed, ConsoleRequestInvalid. */
export function servedRequest(method: string, url: string): ServedRequest {
  const [pathname = "", search = ""] = splitOnce(url, "?");
  const query = new URLSearchParams(search);
  for (const name of query.keys())
    if (!PARAMETERS.has(name))
      throw new MetalbridgeError("ConsoleRequestInvalid", `the parameter ${quoted(name)} is not passed on`);
  if (pathname === "/version" && method === "GET")
    return { verb: "get", resource: "version", path: pathname, isChange: false };
  const target = parsePath(pathname);
  const verb = target && verbOf(method, target);
  const kind = target && kindOf(target);
  if (target === undefined || verb === undefined || kind === undefined || !serves(kind, target, verb))
    throw new MetalbridgeError("ConsoleKindNotServed", `${method} ${quoted(pathname)} is not passed on`);
  if (verb === "list" && kind.label !== undefined) restrictTo(kind.label, query);
  const text = query.toString();
  const isWrite = verb !== "get" && verb !== "list" && kind.isReview !== true;
  return {
    verb,
    resource: target.resource,
    path: text === "" ? pathname : `${pathname}?${text}`,
    isChange: isWrite && query.get("dryRun") !== "All",
  };
}

interface Target {
  readonly group: string;
  readonly resource: string;
  readonly name?: string | undefined;
  readonly subresource?: string | undefined;
}

function parsePath(pathname: string): Target | undefined {
  const segments = pathname.split("/").slice(1);
  if (!segments.every((segment) => SEGMENT.test(segment))) return undefined;
  const isCore = segments[0] === "api" && segments[1] === "v1";
  if (!isCore && segments[0] !== "apis") return undefined;
  const group = isCore ? "" : (segments[1] ?? "");
  const rest = segments.slice(isCore ? 2 : 3);
  const [resource, name, subresource, ...more] =
    rest[0] === "namespaces" && rest.length > 2 ? rest.slice(2) : rest;
  return resource === undefined || more.length > 0 ? undefined : { group, resource, name, subresource };
}

/** Undefined for the deletion of a whole collection, and for methods that the API server does not have. */
function verbOf(method: string, { name }: Target): Verb | undefined {
  if (method === "GET") return name === undefined ? "list" : "get";
  if (method === "DELETE") return name === undefined ? undefined : "delete";
  return VERBS[method];
}

function kindOf({ group, resource }: Target): ServedKind | undefined {
  const key = `${group}/${resource}`;
  return Object.hasOwn(KINDS, key) ? KINDS[key] : undefined;
}

function serves(
  { verbs, subresources = {} }: ServedKind,
  { name, subresource }: Target,
  verb: Verb,
): boolean {
  if ((verb === "create") !== (name === undefined) && verb !== "list") return false;
  if (subresource === undefined) return verbs.includes(verb);
  return Object.hasOwn(subresources, subresource) && subresources[subresource]?.includes(verb) === true;
}

function restrictTo(label: string, query: URLSearchParams): void {
  const asked = query.get("labelSelector");
  query.set("labelSelector", asked === null || asked === "" ? label : `${label},${asked}`);
}

function splitOnce(text: string, separator: string): readonly [string, string] {
  const at = text.indexOf(separator);
  return at < 0 ? [text, ""] : [text.slice(0, at), text.slice(at + 1)];
}

function quoted(text: string): string {
  return JSON.stringify(text.slice(0, 200));
}
