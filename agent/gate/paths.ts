/** Decides which requests may reach a daemon: exact paths only, so that no other spelling of a path does. */

import { GATED_ROUTES } from "../../src/engines/gated-routes.ts";
import { compareVersions } from "../../src/util/compare-versions.ts";
import { type RequestRejection, rejectRequest } from "./body/rejection.ts";
import type { GateRoute } from "./routes.ts";

/**
 * json: the model in the body is checked. list: the answer is narrowed to the one model. health: the gate answers it.
 * raw: passed unchanged, without a key if `isOpen`. later: a later version of the engine has the path.
 */
export type PathRule =
  | { readonly kind: "raw"; readonly path: string; readonly isOpen: boolean }
  | {
      readonly kind: "json";
      readonly path: string;
      readonly nameKeys: readonly string[];
      /** Adapters that a request may name instead of the model. */
      readonly adapters?: readonly string[];
    }
  | { readonly kind: "list"; readonly path: string }
  | { readonly kind: "health" }
  | { readonly kind: "later"; readonly since: string };

/** By path; "any" passes all. */
export type PathRules = ReadonlyMap<string, PathRule> | "any";

const MODEL = ["model"];
const HEALTH: PathRule = { kind: "health" };

/** The paths of an engine of this version; without a version, those that all versions have. */
export function pathRulesOf({
  protocol,
  engineVersion,
}: Pick<GateRoute, "protocol" | "engineVersion">): PathRules {
  if (protocol === "any") return protocol;
  const rules = GATED_ROUTES[protocol].map(({ path, kind, nameKeys = MODEL, since }): [string, PathRule] => {
    const isSupported =
      since === undefined || (engineVersion !== undefined && compareVersions(engineVersion, since) >= 0);
    if (!isSupported) return [path, { kind: "later", since }];
    return [path, kind === "json" ? { kind, path, nameKeys } : { kind, path }];
  });
  return new Map([["/health", HEALTH], ...rules]);
}

/** Paths that change the models or settings of known daemons: rejected with their own reason, so that the client learns why. */
const ADMINISTRATION =
  /^\/(api\/(pull|push|create|copy|delete|blobs)|admin|models|slots|props|lora-adapters|v1\/models)(\/|$)/;
/** Characters that a lenient router might read as another path. */
const SUSPICIOUS = /[%\\;\s]|\/\/|\/\.{1,2}(\/|$)/;

type AdmittedRequest = Exclude<PathRule, { kind: "later" }>;

/** Decides by method and request target. The query is dropped: no route needs one, and some daemons take a model from it. */
export function admitRequest(
  method: string,
  target: string,
  rules: PathRules,
): AdmittedRequest | RequestRejection {
  const path = target.split("?", 1)[0] ?? "";
  if (rules === "any") return admitAny(method, target, path);
  if (!path.startsWith("/") || SUSPICIOUS.test(path))
    return rejectRequest(400, "bad_path", "the path must be absolute, plain and without encoded characters");
  const rule = rules.get(path);
  if (rule?.kind === "later") {
    const message = `${path} needs version ${rule.since} of the engine; update it on the host`;
    return rejectRequest(404, "unknown_path", message);
  }
  const isRead = method === "GET" || method === "HEAD";
  if (rule !== undefined && (rule.kind === "json" ? method === "POST" : isRead)) return rule;
  if (ADMINISTRATION.test(path) && (rule === undefined || !isRead)) {
    const message = `${method} ${path} manages models; this endpoint serves inference only`;
    return rejectRequest(403, "forbidden_path", message);
  }
  if (rule === undefined)
    return rejectRequest(404, "unknown_path", `${path} is not an inference route of this endpoint`);
  const allow = rule.kind === "json" ? "POST" : "GET, HEAD";
  return { ...rejectRequest(405, "method", `${path} takes ${allow}`), headers: { allow } };
}

function admitAny(method: string, target: string, path: string): AdmittedRequest | RequestRejection {
  // An absolute URI names a host, and programs interpret it differently.
  if (!path.startsWith("/")) return rejectRequest(400, "bad_path", "the path must be absolute");
  const isOpen = path === "/health" && (method === "GET" || method === "HEAD");
  return { kind: "raw", path: target, isOpen };
}

/** Routes on which the engine generates text, and applies adapters. */
const ADAPTER_ROUTES: ReadonlySet<string> = new Set([
  ...["/chat/completions", "/completions", "/responses"].flatMap((path) => [path, `/v1${path}`]),
  ...["/completion", "/infill", "/api/chat"],
]);

/** With adapters, the body of a request that generates text is read, because it may name one. All others pass unchanged. */
export function withAdapters(
  rule: AdmittedRequest,
  method: string | undefined,
  adapters: GateRoute["adapters"],
): AdmittedRequest | RequestRejection {
  if (adapters === undefined || rule.kind !== "raw" || method !== "POST") return rule;
  const [path = ""] = rule.path.split("?", 1);
  if (path === "/v1/messages") {
    const message = `the engine applies no adapter on ${path}; use /v1/chat/completions`;
    return rejectRequest(404, "unknown_path", message);
  }
  return ADAPTER_ROUTES.has(path) ? { kind: "json", path: rule.path, nameKeys: MODEL, adapters } : rule;
}

const UNREADABLE: Readonly<Record<string, readonly [string, string]>> = {
  HPE_HEADER_OVERFLOW: ["431 Request Header Fields Too Large", "headers_too_large"],
  HPE_CHUNK_EXTENSIONS_OVERFLOW: ["413 Payload Too Large", "too_large"],
  ERR_HTTP_REQUEST_TIMEOUT: ["408 Request Timeout", "slow"],
};

/** Status line and reason for a request that Node's parser rejects, by the error's code. */
export function parseErrorStatus(code = ""): readonly [string, string] {
  return UNREADABLE[code] ?? ["400 Bad Request", "malformed"];
}
