/** Renews the host's own token at two thirds of its life, and takes up a kubeconfig that was replaced. */
import { statSync } from "node:fs";
import { HOST_TOKEN_SECONDS } from "../../src/api/access/account.ts";
import { describeError, MetalbridgeError } from "../../src/api/errors.ts";
import { NAMESPACE_HOSTS } from "../../src/api/group.ts";
import type { KubeConnection } from "../../src/kube/client/connect.ts";
import { explainFailure } from "../../src/kube/errors.ts";
import { readTokenClaims, renewAtMs, requestToken, type TokenClaims } from "../../src/kube/token.ts";
import type { ApiFailure } from "../../src/kube/types.ts";
import type { Clock, Log } from "../../src/util/ports.ts";
import { msToAlignedTime } from "../../src/util/shared-ticks.ts";
import { type HostToken, readHostToken, replaceToken } from "./file.ts";

export interface RenewalOptions {
  readonly connection: KubeConnection;
  /** The kubeconfig in use. */
  readonly path: string;
  readonly clock: Clock;
  readonly log: Log;
  readonly signal: AbortSignal;
  /** Called when renewal is due or done; with undefined while the token in the file is the newest. */
  readonly onRenewal?: (trouble: MetalbridgeError | undefined) => void;
}

/** One `stat` each time; the file is read when it has changed. */
const LOOK_MS = 10_000;

/** Starts at once; ends with `signal`. Leaves kubeconfigs of other forms alone, but for noticing a new one. */
export function renewCredential(options: RenewalOptions): void {
  const { clock, log, path, signal, connection } = options;
  let seen = versionOf(path);
  let held = readHostToken(path);
  let said: string | undefined;
  /** Issued and not written yet: on a full disk the writing is repeated, and no other token is requested. */
  let unwritten: Issued | undefined;
  let cancel = (): void => {};

  const look = async (): Promise<void> => {
    const version = versionOf(path);
    if (version !== undefined && version !== seen && connection.reload()) {
      seen = version;
      held = readHostToken(path);
      unwritten = undefined;
      log.info({ path, host: held?.claims.host }, "the credential was replaced");
    }
    if (held === undefined || !isDue(held.claims)) return;
    const trouble = await renew(held);
    if (trouble !== undefined && trouble.message !== said)
      log.warn({ code: trouble.code, path }, describeError(trouble));
    said = trouble?.message;
    options.onRenewal?.(trouble);
  };
  // The server's clock made the token; this machine's may be wrong.
  const isDue = (claims: Pick<TokenClaims, "issuedAt" | "expiresAt">): boolean =>
    clock.nowMs() + (connection.serverAheadMs() ?? 0) >= renewAtMs(claims);
  const renew = async ({ claims }: HostToken): Promise<MetalbridgeError | undefined> => {
    if (unwritten !== undefined && isDue(unwritten.claims)) unwritten = undefined;
    const issued = unwritten ?? (await issue(connection, claims));
    if ("kind" in issued) return notRenewed(path, explainFailure(issued).message, issued);
    unwritten = issued;
    try {
      await replaceToken(path, issued.token);
      unwritten = undefined;
    } catch (cause) {
      return notRenewed(path, cause instanceof Error ? cause.message : String(cause), cause);
    }
    connection.reload();
    seen = versionOf(path);
    held = readHostToken(path);
    log.info({ path, until: held && isoOf(held.claims.expiresAt) }, "the credential was renewed");
    return undefined;
  };
  const again = (): void => {
    if (signal.aborted) return;
    cancel = clock.after(msToAlignedTime(clock.monotonicMs(), LOOK_MS), run);
  };
  const run = (): void => {
    look()
      .catch((err: unknown) => log.error({ err }, "cannot look after the credential"))
      .finally(again);
  };
  signal.addEventListener("abort", () => cancel(), { once: true });
  run();
}

interface Issued {
  readonly token: string;
  readonly claims: Pick<TokenClaims, "issuedAt" | "expiresAt">;
}

/** Bound to the same Secret as the token before. */
async function issue(
  connection: KubeConnection,
  { host, secret }: HostToken["claims"],
): Promise<Issued | ApiFailure> {
  const account = { namespace: NAMESPACE_HOSTS, name: host };
  const boundTo = secret === undefined ? undefined : { name: secret };
  const answer = await requestToken(connection, { account, seconds: HOST_TOKEN_SECONDS, boundTo });
  if (!answer.ok) return answer.error;
  const claims = readTokenClaims(answer.value) ?? { issuedAt: 0, expiresAt: Number.POSITIVE_INFINITY };
  return { token: answer.value, claims };
}

function notRenewed(path: string, why: string, cause: unknown): MetalbridgeError {
  return new MetalbridgeError("CredentialNotRenewed", `${path}: ${why}`, undefined, { cause });
}

/** Changes with every replacement of the file. */
function versionOf(path: string): string | undefined {
  try {
    const { ino, mtimeMs, size } = statSync(path);
    return `${ino} ${mtimeMs} ${size}`;
  } catch {
    return undefined;
  }
}

function isoOf(seconds: number): string {
  return new Date(seconds * 1_000).toISOString();
}
