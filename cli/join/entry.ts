/** Joins with the token of a group: this machine requests to become a host, waits for the answer, and gets its own join token. */
import { rmSync } from "node:fs";
import path from "node:path";
import { z } from "zod";
import type { AgentConfig } from "../../agent/config/schema.ts";
import { createHostReader } from "../../agent/host/reader.ts";
import { routedAddress } from "../../agent/host/routed-address.ts";
import { asOwnerOf } from "../../launchd/account-files.ts";
import { JOIN_ACCOUNT_PREFIX } from "../../src/api/access/join-group.ts";
import { MetalbridgeError } from "../../src/api/errors.ts";
import { NAMESPACE_JOIN } from "../../src/api/group.ts";
import type { HostJoinRequest } from "../../src/api/host-join-request.ts";
import { HOST_JOIN_REQUESTS } from "../../src/api/kinds.ts";
import { createJoinKey, type JoinKey, openSealed } from "../../src/crypto/join-seal.ts";
import { explainFailure } from "../../src/kube/errors.ts";
import { systemClock } from "../../src/kube/system-clock.ts";
import type { TokenClaims } from "../../src/kube/token.ts";
import type { ApiFailure, KubeClient } from "../../src/kube/types.ts";
import { waitMs } from "../../src/kube/wait.ts";
import { systemCode, writeFileAtomicSync } from "../../src/util/atomic-file.ts";
import { formatBytes } from "../../src/util/bytes.ts";
import { createRunCommand } from "../../src/util/command.ts";
import { errorMessage } from "../../src/util/error-message.ts";
import { makeFolder } from "../../src/util/folder.ts";
import { readPlainFile } from "../../src/util/plain-file.ts";
import { truncate } from "../../src/util/text.ts";
import { withCluster } from "../cluster/cluster.ts";
import { printNote } from "../program/output.ts";
import { joinRejectionOf } from "./rejection.ts";
import { explainUntrusted, isPermanentlyUntrusted } from "./server-trust.ts";

export interface JoinAttempt {
  readonly config: Pick<AgentConfig, "hostName" | "addresses" | "platform" | "stateDir">;
  readonly claims: TokenClaims;
  readonly group: string;
  /** A kubeconfig with the token of the group. */
  readonly kubeconfig: string;
  /** PATH for system tools. */
  readonly toolPath: string;
  /** Ends the wait for the answer. */
  readonly signal: AbortSignal;
}

/** The key of a pending request. It is stored, so that an interrupted join can read the answer later. */
const storedKeySchema = z.strictObject({
  privateKey: z.string(),
  publicKey: z.string(),
  hostName: z.string(),
  group: z.string(),
});
type StoredKey = z.output<typeof storedKeySchema>;

const SOON_MS = 1_000;
const LATER_MS = 10_000;
/** Number of polls with the short interval. An approval by an administrator may take long. */
const SOON_TIMES = 30;

/** The group of the account in the token. */
export function groupOf({ subject }: TokenClaims): string | undefined {
  return subject.startsWith(JOIN_ACCOUNT_PREFIX) ? subject.slice(JOIN_ACCOUNT_PREFIX.length) : undefined;
}

/**
 * Resolves with the join token of the host, or with undefined after the signal. The same key gets the same answer, so an
 * interrupted command can be run again.
 */
export async function requestJoin(entry: JoinAttempt): Promise<string | undefined> {
  const { config, group, kubeconfig } = entry;
  return withCluster("join", { kubeconfig }, async ({ client, connection }) => {
    const spec = { hostName: config.hostName, group, ...(await describeMachine(entry, connection.server)) };
    const key = await ensureKey(config.stateDir, spec);
    const object = { metadata: { name: key.publicKey, namespace: NAMESPACE_JOIN }, spec };
    return await untilAnswered({ ...entry, client, object, key });
  });
}

/** Called once the host has a credential, or was rejected. */
export function forgetKey(stateDir: string): void {
  asOwnerOf(stateDir, () => rmSync(keyFile(stateDir), { force: true }));
}

interface PendingJoin extends JoinAttempt {
  readonly client: KubeClient;
  readonly object: HostJoinRequest;
  readonly key: JoinKey;
}

async function untilAnswered(join: PendingJoin): Promise<string | undefined> {
  const { signal } = join;
  let shown = "";
  for (let times = 1; !signal.aborted; times += 1) {
    const answer = await readAnswer(join);
    if ("token" in answer) return answer.token;
    if (answer.waiting !== shown) printNote(answer.waiting);
    shown = answer.waiting;
    if (times === 1) printNote("to interrupt the wait, press Ctrl-C; the same command resumes it");
    await waitMs(systemClock, times < SOON_TIMES ? SOON_MS : LATER_MS, signal);
  }
  return undefined;
}

/** Creates the request if it does not exist: the first time, and after the controller has removed an old one. */
async function readAnswer({ client, object, config, claims, key }: PendingJoin) {
  const { name, namespace } = object.metadata;
  const read = await client.get(HOST_JOIN_REQUESTS, { name, namespace });
  const isAbsent = !read.ok && read.error.kind === "notFound";
  const found = isAbsent ? await client.create(HOST_JOIN_REQUESTS, object) : read;
  const request = `requested to join as host ${config.hostName} (key ${key.publicKey.slice(0, 16)})`;
  if (!found.ok) return { waiting: `${request}; retrying: ${transientError(found.error, claims).message}` };
  const token = tokenIn(found.value, key, config.stateDir);
  if (token !== undefined) return { token };
  const { phase, message = "" } = found.value.status ?? {};
  return { waiting: `${request}; ${phase === "Pending" ? message : "the controller has not answered yet"}` };
}

/** Undefined before the answer. Throws the rejection. */
function tokenIn(request: HostJoinRequest, key: JoinKey, stateDir: string): string | undefined {
  const rejection = joinRejectionOf(request);
  if (rejection !== undefined) {
    // The next attempt needs a new key: the controller keeps this answer for a while.
    forgetKey(stateDir);
    throw rejection;
  }
  const { metadata, status } = request;
  if (status?.phase !== "Admitted") return undefined;
  const token = openSealed(key, status.sealedToken ?? "");
  if (token !== undefined) return token;
  throw new MetalbridgeError("JoinFailed", `the answer to the request ${metadata.name} cannot be decrypted`);
}

/** The error of a transient failure. Throws the error of a permanent failure. */
function transientError(failure: ApiFailure, claims: TokenClaims): MetalbridgeError {
  if (failure.kind === "unauthorized") {
    const { expiresAt } = claims;
    const until = new Date(expiresAt * 1_000).toISOString();
    const why =
      Date.now() >= expiresAt * 1_000
        ? `it expired at ${until}`
        : "it was revoked, or is from another cluster";
    throw new MetalbridgeError(
      "JoinTokenRefused",
      `the token of group ${groupOf(claims)} is refused: ${why}`,
      {
        summary: "ask an administrator for a new token of the group",
        command: "metalbridge host token create",
      },
    );
  }
  const untrusted = explainUntrusted(failure, "metalbridge host token create");
  if (untrusted !== undefined && isPermanentlyUntrusted(failure)) throw untrusted;
  const error = explainFailure(failure);
  if (failure.message.includes("exceeded quota"))
    throw new MetalbridgeError("JoinRequestsFull", failure.message);
  if (["unreachable", "unavailable", "throttled", "conflict", "alreadyExists"].includes(failure.kind))
    return error;
  throw error;
}

async function describeMachine({ config, toolPath }: JoinAttempt, server: string) {
  const routed = config.addresses.length > 0 ? undefined : await routedAddress(server);
  const addresses = routed === undefined ? [...config.addresses] : [routed];
  if (addresses.length === 0)
    throw new MetalbridgeError(
      "AddressUnknown",
      "no address is configured, and none routes to the API server",
    );
  const info = await createHostReader(config.platform, createRunCommand(toolPath)).info();
  const memory = info.memoryBytes === undefined ? undefined : formatBytes(info.memoryBytes);
  const machine = [info.chip, memory, info.os, info.osVersion]
    .filter((part) => part !== undefined)
    .join(", ");
  return { addresses, machineId: info.machineId, machine: truncate(machine, 128) };
}

/** Reuses the stored key for the same name in the same group. */
async function ensureKey(
  stateDir: string,
  { hostName, group }: { readonly hostName: string; readonly group: string },
): Promise<JoinKey> {
  try {
    await makeFolder(stateDir);
    return asOwnerOf(stateDir, () => {
      const stored = readStoredKey(stateDir);
      if (stored?.hostName === hostName && stored.group === group) return stored;
      const key = createJoinKey();
      writeFileAtomicSync(keyFile(stateDir), JSON.stringify({ ...key, hostName, group }));
      return key;
    });
  } catch (cause) {
    const why = errorMessage(cause);
    throw new MetalbridgeError("JoinFailed", `${keyFile(stateDir)}: ${why}`, undefined, { cause });
  }
}

function readStoredKey(stateDir: string): StoredKey | undefined {
  try {
    return storedKeySchema.parse(JSON.parse(readPlainFile(keyFile(stateDir), { maxBytes: 4_096 })));
  } catch (error) {
    if (systemCode(error) !== undefined && systemCode(error) !== "ENOENT") throw error;
    return undefined;
  }
}

function keyFile(stateDir: string): string {
  return path.join(stateDir, "join-key");
}
