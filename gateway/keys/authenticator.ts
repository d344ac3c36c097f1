/** Authenticates requests by keys, and by tokens of Kubernetes where that is enabled. */
import { hashKey, isKeyText } from "../../src/gateway/key-secret.ts";
import type { Authenticated, Authentication, Authenticator } from "./authentication.ts";
import { readCredential } from "./credential.ts";
import type { KeyIndex } from "./key-index.ts";
import type { IdentifyUser } from "./users.ts";

type Refusal = Extract<Authentication, { readonly at: "refused" }>;

const MESSAGES: Readonly<Record<Refusal["reason"], string>> = {
  missing: "No API key. Send a key of this gateway as 'Authorization: Bearer <key>' or 'x-api-key: <key>'.",
  unknown: "Unknown API key. Check the key, or request one from the administrator of this gateway.",
  expired: "This API key has expired. Request a new one from the administrator of this gateway.",
  revoked: "This API key was revoked. Request a new one from the administrator of this gateway.",
  unavailable: "API keys cannot be checked at the moment. Try again in a few seconds.",
};

/** All requests of a gateway without keys that listens on loopback only. */
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
  /** False until all keys are read: an unread key is not unknown. */
  readonly isSynced: () => boolean;
  readonly nowMs: () => number;
  /** Absent if tokens of Kubernetes are not accepted. */
  readonly identifyUser?: IdentifyUser | undefined;
  /** True while the gateway listens on loopback only: then every request is accepted if no Secret is labeled as a key. */
  readonly isOpenWithoutKeys: () => boolean;
  readonly countResult?: ((result: Refusal["reason"] | "authenticated") => void) | undefined;
}

export function createAuthenticator(ports: AuthenticatorPorts): Authenticator {
  const { countResult = () => undefined } = ports;
  return {
    authenticate: async (headers) => {
      const result = await authenticate(ports, readCredential(headers));
      countResult(result.at === "refused" ? result.reason : "authenticated");
      return result;
    },
  };
}

async function authenticate(
  { keys, isSynced, nowMs, identifyUser, isOpenWithoutKeys }: AuthenticatorPorts,
  credential: string | undefined,
): Promise<Authentication> {
  if (!isSynced()) return refused("unavailable");
  if (keys.size() === 0 && isOpenWithoutKeys()) return { at: "authenticated", caller: anonymous };
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

function refused(reason: Refusal["reason"]): Authentication {
  return { at: "refused", reason, message: MESSAGES[reason] };
}
