/** Authenticates requests by keys, and by Kubernetes tokens if they are enabled. */
import { hashKey, isKeyText } from "../../src/gateway/key-secret.ts";
import { isFromProgram } from "../../src/http/loopback.ts";
import {
  type Authenticated,
  type Authentication,
  type Authenticator,
  type RequestHeaders,
  readCredential,
  single,
} from "./authentication.ts";
import type { KeyIndex } from "./key-index.ts";
import type { IdentifyUser } from "./users.ts";

type Refusal = Extract<Authentication, { readonly at: "refused" }>;

const MESSAGES: Readonly<Record<Refusal["reason"], string>> = {
  missing: "No API key. Send a key of this gateway as 'Authorization: Bearer <key>' or 'x-api-key: <key>'.",
  unknown: "Unknown API key. Check the key, or request one from the administrator of this gateway.",
  expired: "This API key has expired. Request a new one from the administrator of this gateway.",
  disabled: "This API key is disabled. Ask the administrator of this gateway to enable it.",
  revoked: "This API key was revoked. Request a new one from the administrator of this gateway.",
  foreign:
    "Without keys, this gateway accepts requests only from programs on its own machine that use localhost or 127.0.0.1, and from pages of --cors-origins. Create a key with 'metalbridge key create', and send it.",
  unavailable: "API keys cannot be checked at the moment. Try again in a few seconds.",
};

/** The caller of all requests while a gateway without keys listens on loopback only. */
export const anonymous: Authenticated = {
  id: "anonymous",
  owner: "",
  mayUse: async () => "allowed",
  priority: "normal",
  weight: 1,
  limits: {},
};

export interface AuthenticatorPorts {
  readonly keys: Pick<KeyIndex, "find" | "size">;
  /** False until all keys are read: until then, a key cannot be called unknown. */
  readonly isSynced: () => boolean;
  readonly nowMs: () => number;
  /** Absent if Kubernetes tokens are not accepted. */
  readonly identifyUser?: IdentifyUser | undefined;
  /** True while the gateway listens on loopback only: if no Secret is labeled as a key, programs on this machine need none. */
  readonly isOpenWithoutKeys: () => boolean;
  /** Origins of web pages that are accepted like programs on this machine. `*` matches any. */
  readonly corsOrigins: readonly string[];
}

export function createAuthenticator(ports: AuthenticatorPorts): Authenticator {
  return { authenticate: (headers) => authenticate(ports, headers) };
}

async function authenticate(
  { keys, isSynced, nowMs, identifyUser, isOpenWithoutKeys, corsOrigins }: AuthenticatorPorts,
  headers: RequestHeaders,
): Promise<Authentication> {
  if (!isSynced()) return refused("unavailable");
  if (keys.size() === 0 && isOpenWithoutKeys())
    return isLocal(headers, corsOrigins) ? { at: "authenticated", caller: anonymous } : refused("foreign");
  const credential = readCredential(headers);
  if (credential === undefined) return refused("missing");
  if (isKeyText(credential)) {
    const found = keys.find(hashKey(credential));
    if (found === undefined) return refused("unknown");
    const state = found.state(nowMs());
    return state === "active" ? { at: "authenticated", caller: found.caller } : refused(state);
  }
  if (identifyUser === undefined) return refused("unknown");
  const user = await identifyUser(credential);
  if (user.at === "user") return { at: "authenticated", caller: user.caller };
  return refused(user.at === "stranger" ? "unknown" : "unavailable");
}

/** False for pages of other origins, and for pages whose name resolves to loopback. */
function isLocal({ host, origin }: RequestHeaders, corsOrigins: readonly string[]): boolean {
  const isNamed = corsOrigins.some((one) => one === "*" || one === origin);
  if (isNamed || origin === undefined) return isFromProgram({ host: single(host) });
  const page = single(origin);
  return page !== undefined && isFromProgram({ host: single(host), origin: page });
}

function refused(reason: Refusal["reason"]): Authentication {
  return { at: "refused", reason, message: MESSAGES[reason] };
}
