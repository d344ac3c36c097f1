/** Renews the host's token after two thirds of its lifetime, and loads a kubeconfig that was replaced. */
import { statSync } from "node:fs";
import { HOST_TOKEN_SECONDS } from "../../src/api/access/account.ts";
import { describeError, MetalbridgeError, remedyOf } from "../../src/api/errors.ts";
import { NAMESPACE_HOSTS } from "../../src/api/group.ts";
import type { KubeConnection } from "../../src/kube/client/connect.ts";
import { explainFailure } from "../../src/kube/errors.ts";
import { readTokenClaims, renewAtMs, requestToken, type TokenClaims } from "../../src/kube/token.ts";
import type { ApiFailure } from "../../src/kube/types.ts";
import { errorMessage } from "../../src/util/error-message.ts";
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
  /** Called after each attempt to renew; with undefined if it succeeded. */
  readonly onRenewal?: (failure: MetalbridgeError | undefined) => void;
}

/** Each check is one `stat`; the file is read when it has changed. */
const CHECK_MS = 10_000;

/** Starts at once; ends with `signal`. Other kubeconfigs are not renewed, only reloaded after a change. */
export function renewCredential(options: RenewalOptions): void {
  const { clock, log, path, signal, connection } = options;
  let version = versionOf(path);
  let current = readHostToken(path);
  let logged: string | undefined;
  /** Issued but not written: on a full disk the write is retried, and no other token is requested. */
  let unwritten: Issued | undefined;
  let cancel = (): void => {};

  const check = async (): Promise<void> => {
    const newVersion = versionOf(path);
    if (newVersion !== undefined && newVersion !== version && connection.reload()) {
      version = newVersion;
      current = readHostToken(path);
      unwritten = undefined;
      log.info({ path, host: current?.claims.host }, "the credential was replaced");
    }
    if (current === undefined || !isDue(current.claims)) return;
    const failure = await renew(current);
    if (failure !== undefined && failure.message !== logged)
      log.warn({ code: failure.code, path }, describeError(failure));
    logged = failure?.message;
    options.onRenewal?.(failure);
  };
  // By the server's clock, which dated the token: this machine's clock may be wrong.
  const isDue = (claims: Pick<TokenClaims, "issuedAt" | "expiresAt">): boolean =>
    clock.nowMs() + (connection.serverAheadMs() ?? 0) >= renewAtMs(claims);
  const renew = async ({ claims }: HostToken): Promise<MetalbridgeError | undefined> => {
    if (unwritten !== undefined && isDue(unwritten.claims)) unwritten = undefined;
    const issued = unwritten ?? (await issue(connection, claims));
    if ("kind" in issued)
      return notRenewed(`${path}: ${explainFailure(issued).message}`, claims.host, issued);
    unwritten = issued;
    try {
      await replaceToken(path, issued.token);
      unwritten = undefined;
    } catch (cause) {
      return notRenewed(`${path}: ${errorMessage(cause)}`, claims.host, cause);
    }
    connection.reload();
    version = versionOf(path);
    current = readHostToken(path);
    const until = current && new Date(current.claims.expiresAt * 1_000).toISOString();
    log.info({ path, until }, "the credential was renewed");
    return undefined;
  };
  const run = (): void => {
    check()
      .catch((err: unknown) => log.error({ err }, "cannot check the credential"))
      .finally(() => {
        if (!signal.aborted) cancel = clock.after(msToAlignedTime(clock.monotonicMs(), CHECK_MS), run);
      });
  };
  signal.addEventListener("abort", () => cancel(), { once: true });
  run();
}

interface Issued {
  readonly token: string;
  readonly claims: Pick<TokenClaims, "issuedAt" | "expiresAt">;
}

/** The new token is bound to the same Secret as the previous one. */
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

function notRenewed(why: string, host: string, cause: unknown): MetalbridgeError {
  const remedy = remedyOf("CredentialNotRenewed", { host });
  return new MetalbridgeError("CredentialNotRenewed", why, remedy, { cause });
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
