/** Which requests may reach a daemon: exact paths only, so that no spelling of another one ever does. */

import { GATED_ROUTES } from "../../src/engines/gated-routes.ts";
import { compareVersions } from "../../src/util/compare-versions.ts";
import { type RequestRejection, rejectRequest } from "./body/rejection.ts";
import type { GateRoute } from "./routes.ts";

/**
 * json: a body whose model is checked. list: an answer that is narrowed to the one model. health: answered by the gate.
 * raw: passed on as it comes; `isOpen` asks for no key. later: a later version of the engine has it.
 */
export type PathRule =
  | { readonly kind: "raw"; readonly path: string; readonly isOpen: boolean }
  | { readonly kind: "json"; readonly path: string; readonly nameKeys: readonly string[] }
  | { readonly kind: "list"; readonly path: string }
  | { readonly kind: "health" }
  | { readonly kind: "later"; readonly since: string };

/** By path; "any" passes all. */
export type PathRules = ReadonlyMap<string, PathRule> | "any";

const MODEL = ["model"];
const HEALTH: PathRule = { kind: "health" };

/** What an engine of this version takes; without a version, what all versions do. */
export function pathRulesOf({
  protocol,
  engineVersion,
}: Pick<GateRoute, "protocol" | "engineVersion">): PathRules {
  if (protocol === "any") return protocol;
  const passages = GATED_ROUTES[protocol].map(
    ({ path, kind, nameKeys = MODEL, since }): [string, PathRule] => {
      const isThere =
        since === undefined || (engineVersion !== undefined && compareVersions(engineVersion, since) >= 0);
      if (!isThere) return [path, { kind: "later", since }];
      return [path, kind === "json" ? { kind, path, nameKeys } : { kind, path }];
    },
  );
  return new Map([["/health", HEALTH], ...passages]);
}

/** What changes a daemon's models or settings, in the daemons that we know: refused by name, so that the client learns why. */
const ADMINISTRATION =
  /^\/(api\/(pull|push|create|copy|delete|blobs)|admin|models|slots|props|lora-adapters|v1\/models)(\/|$)/;
/** What a lenient router might read as another path. */
const SUSPICIOUS = /[%\\;\s]|\/\/|\/\.{1,2}(\/|$)/;

/** Decides by method and request target. The query is dropped: no passed route needs one, and some daemons take a model from it. */
export function admitRequest(
  method: string,
  target: string,
  passages: PathRules,
): Exclude<PathRule, { kind: "later" }> | RequestRejection {
  const path = target.split("?", 1)[0] ?? "";
  if (passages === "any") return admitAny(method, target, path);
  if (!path.startsWith("/") || SUSPICIOUS.test(path))
    return rejectRequest(400, "bad_path", "the path must be absolute, plain and without encoded characters");
  const passage = passages.get(path);
  if (passage?.kind === "later") {
    const message = `${path} needs version ${passage.since} of the engine; update it on the host`;
    return rejectRequest(404, "unknown_path", message);
  }
  const reads = method === "GET" || method === "HEAD";
  if (passage !== undefined && (passage.kind === "json" ? method === "POST" : reads)) return passage;
  if (ADMINISTRATION.test(path) && (passage === undefined || !reads)) {
    return rejectRequest(
      403,
      "forbidden_path",
      `${method} ${path} manages models; this endpoint serves inference only`,
    );
  }
  if (passage === undefined)
    return rejectRequest(404, "unknown_path", `${path} is not an inference route of this endpoint`);
  const allow = passage.kind === "json" ? "POST" : "GET, HEAD";
  return { ...rejectRequest(405, "method", `${path} takes ${allow}`), headers: { allow } };
}

function admitAny(
  method: string,
  target: string,
  path: string,
): Exclude<PathRule, { kind: "later" }> | RequestRejection {
  // An absolute URI names a host, and programs differ in what they make of it.
  if (!path.startsWith("/")) return rejectRequest(400, "bad_path", "the path must be absolute");
  const isOpen = path === "/health" && (method === "GET" || method === "HEAD");
  return { kind: "raw", path: target, isOpen };
}

const UNREADABLE: Readonly<Record<string, readonly [string, string]>> = {
  HPE_HEADER_OVERFLOW: ["431 Request Header Fields Too Large", "headers_too_large"],
  HPE_CHUNK_EXTENSIONS_OVERFLOW: ["413 Payload Too Large", "too_large"],
  ERR_HTTP_REQUEST_TIMEOUT: ["408 Request Timeout", "slow"],
};

/** Status line and reason for a request that Node's parser refuses, by its error's code. */
export function parseErrorStatus(code = ""): readonly [string, string] {
  return UNREADABLE[code] ?? ["400 Bad Request", "malformed"];
}
