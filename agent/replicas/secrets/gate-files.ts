/**
 * Files that the gate reads for a replica: accepted API keys and the certificate, updated from their Secrets, and the clients of a
 * sealed one.
 */

import { createPrivateKey, randomBytes, X509Certificate } from "node:crypto";
import { mkdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { createSecureContext } from "node:tls";
import { describeError, MetalbridgeError } from "../../../src/api/errors.ts";
import type { InferenceReplica } from "../../../src/api/inference-replica.ts";
import { engineDescription, isGated } from "../../../src/engines/registry.ts";
import type { KubeClient } from "../../../src/kube/types.ts";
import { writeFileAtomic } from "../../../src/util/atomic-file.ts";
import { errorMessage } from "../../../src/util/error-message.ts";
import type { GateFiles } from "../../engines/driver/engine.ts";
import type { RunnerContext } from "../context/context.ts";
import { recordReplicaEvent } from "../report/events.ts";
import { liveRunOf, noteSecrets } from "../state/run.ts";
import { clientsOf, type ReplicaState, replicaOf } from "../state/state.ts";
import { acceptKeys, parseAccepted, renderAccepted } from "./accepted-keys.ts";
import {
  decodeSecret,
  isSecretUnreadable,
  readKeys,
  readSecret,
  type StartSecrets,
  saveKeys,
  writeKeyFile,
} from "./secrets.ts";

/** All accepted keys: those of the Secret and, for some time, those that were removed from it. */
const ACCEPTED_KEYS = "gate-keys";
/** The removed keys, and until when each is accepted. */
const RETIRED_KEYS = "left-keys";
/** Chain and key in one file, so that the gate never reads halves of two certificates. */
const CERTIFICATE = "gate-tls.pem";
const CLIENT_CA = "gate-client-ca.pem";
const CLIENTS = "gate-clients";

/**
 * Behind the gate, an engine that checks API keys gets a separate key that only the gate and the probes know: clients cannot
 * bypass the gate, and a new key in the Secret needs no restart. Files of an earlier start are used while the API server is
 * unreachable.
 */
export async function prepareSecrets(
  replica: InferenceReplica,
  dir: string,
  context: RunnerContext,
): Promise<StartSecrets> {
  const { client } = context.cluster() ?? {};
  const { template } = replica.spec;
  if (!isGated(template)) return writeKeyFile(client, replica, dir);
  const { error } = await refreshGateFiles(client, replica, dir, rotationOf(context));
  if (error !== undefined) throw error;
  const hostFile = template.transport === "Sealed" ? await context.ports.transport.file() : undefined;
  const gateFiles = gateFilesOf(replica, dir, hostFile);
  if (template.auth === undefined || engineDescription(template.runtime)?.checksApiKey !== true)
    return { gateFiles };
  const apiKey = randomBytes(32).toString("hex");
  return { gateFiles, apiKeyFile: await saveKeys(dir, apiKey), apiKey };
}

/** Updates the gate's files while the engine runs, without a restart, and reports Secrets that cannot be used. */
export function rotateSecrets(state: ReplicaState, context: RunnerContext): void {
  const { clock } = context.ports;
  const run = liveRunOf(state);
  const replica = replicaOf(state);
  if (run === undefined || replica === undefined) return;
  state.jobs.run("secrets", async () => {
    const at = clock.monotonicMs();
    const client = context.cluster()?.client;
    const { isChanged, error } = await refreshGateFiles(client, replica, state.dir, rotationOf(context));
    if (isChanged) {
      state.log.info({}, "keys, certificate or clients changed");
      run.instance.filesChanged?.();
    }
    noteSecrets(state, run.instance, {
      at,
      problem: error && describeError(error),
      clients: clientsOf(replica),
    });
    if (error === undefined) state.repeated.resolved("use the Secrets");
    else if (state.repeated.found("use the Secrets", error.message, { code: error.code })) {
      const note = describeError(error);
      recordReplicaEvent(state, context, { type: "Warning", reason: error.code, action: "Serve", note });
    }
    return true;
  });
}

function rotationOf({ ports, timings }: RunnerContext): Rotation {
  return { nowMs: ports.clock.nowMs(), overlapMs: timings.keyOverlapMs };
}

interface Rotation {
  readonly nowMs: number;
  /** How long removed keys are still accepted. */
  readonly overlapMs: number;
}

interface Refreshed {
  readonly isChanged: boolean;
  /** Why a Secret cannot be used; the files then keep its previous contents. */
  readonly error?: MetalbridgeError | undefined;
}

async function refreshGateFiles(
  client: KubeClient | undefined,
  replica: InferenceReplica,
  dir: string,
  rotation: Rotation,
): Promise<Refreshed> {
  mkdirSync(dir, { recursive: true, mode: 0o700 });
  const read = (work: Promise<Refreshed>): Promise<Refreshed> =>
    work.catch((error: unknown) => {
      if (error instanceof MetalbridgeError) return { isChanged: false, error };
      throw error;
    });
  const { namespace = "" } = replica.metadata;
  const { secretName, clientCASecretName } = replica.spec.template.tls ?? {};
  const refresh = async (
    file: string,
    secret: string | undefined,
    readPem: typeof readCertificate,
  ): Promise<Refreshed> => {
    if (secret === undefined) return { isChanged: false };
    const pem = () => readPem(client, namespace, secret, rotation.nowMs);
    return { isChanged: await refreshPem(join(dir, file), pem) };
  };
  const results = await Promise.all([
    read(refreshKeys(client, replica, dir, rotation)),
    read(refresh(CERTIFICATE, secretName, readCertificate)),
    read(refresh(CLIENT_CA, clientCASecretName, readClientCA)),
    refreshClients(replica, dir),
  ]);
  const { error } = results.find((result) => result.error !== undefined) ?? {};
  const isChanged = results.some((result) => result.isChanged);
  return { isChanged, error };
}

/** `hostFile`: certificate and key of this host, for a sealed replica. */
function gateFilesOf(
  { spec: { template } }: InferenceReplica,
  dir: string,
  hostFile: string | undefined,
): GateFiles {
  const { auth, tls } = template;
  const keyFiles = auth === undefined ? undefined : [join(dir, ACCEPTED_KEYS)];
  if (hostFile !== undefined) {
    const clientFingerprintsFile = join(dir, CLIENTS);
    return { keyFiles, tls: { certFile: hostFile, keyFile: hostFile, clientFingerprintsFile } };
  }
  const file = join(dir, CERTIFICATE);
  const clientCAFile = tls?.clientCASecretName && join(dir, CLIENT_CA);
  return { keyFiles, tls: tls === undefined ? undefined : { certFile: file, keyFile: file, clientCAFile } };
}

async function refreshClients(replica: InferenceReplica, dir: string): Promise<Refreshed> {
  const [file, clients] = [join(dir, CLIENTS), clientsOf(replica)];
  if (clients === undefined || clients === textIn(file)) return { isChanged: false };
  await writeFileAtomic(file, clients);
  return { isChanged: true };
}

/** Expires removed keys even while the Secret cannot be used. */
async function refreshKeys(
  client: KubeClient | undefined,
  { metadata, spec }: InferenceReplica,
  dir: string,
  rotation: Rotation,
): Promise<Refreshed> {
  const { auth } = spec.template;
  if (auth === undefined) return { isChanged: false };
  const [acceptedFile, retiredFile] = [join(dir, ACCEPTED_KEYS), join(dir, RETIRED_KEYS)];
  const stored = { accepted: textIn(acceptedFile) ?? "", left: textIn(retiredFile) ?? "" };
  const before = parseAccepted(stored.accepted, stored.left);
  const { keys, error } = await readKeys(client, metadata.namespace ?? "", auth).then(
    (keys) => ({ keys, error: undefined }),
    (error: unknown) => {
      if (before.current.length === 0 || !(error instanceof MetalbridgeError)) throw error;
      return { keys: before.current, error: isSecretUnreadable(error) ? undefined : error };
    },
  );
  const next = renderAccepted(acceptKeys(before, keys, rotation));
  const isChanged = next.accepted !== stored.accepted;
  // In this order: if the second write fails, no key is accepted for longer.
  if (next.retired !== stored.left) await writeFileAtomic(retiredFile, next.retired);
  if (isChanged) await writeFileAtomic(acceptedFile, next.accepted);
  return { isChanged, error };
}

/** Keeps the file while the Secret cannot be read. */
async function refreshPem(path: string, read: () => Promise<string>): Promise<boolean> {
  const before = textIn(path);
  try {
    const pem = await read();
    if (pem === before) return false;
    await writeFileAtomic(path, pem);
    return true;
  } catch (error) {
    if (before !== undefined && isSecretUnreadable(error)) return false;
    throw error;
  }
}

async function readCertificate(
  client: KubeClient | undefined,
  namespace: string,
  name: string,
  nowMs: number,
): Promise<string> {
  const data = await readSecret(client, namespace, name, {
    type: "tls",
    flags: "--cert=tls.crt --key=tls.key",
  });
  const missing = ["tls.crt", "tls.key"].filter((key) => (data[key] ?? "") === "");
  if (missing.length > 0)
    throw new MetalbridgeError(
      "SecretIncomplete",
      `Secret ${namespace}/${name} has no key ${missing.join(" and no key ")}`,
    );
  const [chain, key] = [decodeSecret(data["tls.crt"] ?? ""), decodeSecret(data["tls.key"] ?? "")];
  const why = certificateProblem(chain, key, nowMs);
  if (why === undefined) return `${chain}\n${key}\n`;
  throw new MetalbridgeError("CertificateInvalid", `Secret ${namespace}/${name}: ${why}`);
}

async function readClientCA(
  client: KubeClient | undefined,
  namespace: string,
  name: string,
  nowMs: number,
): Promise<string> {
  const create = { type: "generic", flags: "--from-file=ca.crt" };
  const pem = decodeSecret((await readSecret(client, namespace, name, create))["ca.crt"] ?? "");
  if (pem === "")
    throw new MetalbridgeError("SecretIncomplete", `Secret ${namespace}/${name} has no key ca.crt`);
  const why = clientCAProblem(pem, nowMs);
  if (why === undefined) return `${pem}\n`;
  throw new MetalbridgeError("CertificateInvalid", `Secret ${namespace}/${name}: ${why}`);
}

/** Each handshake sends the chain and signs with the key, which delays all services of the host. */
const MAX_PEM_LENGTH = 64 * 1024;
const MAX_CERTIFICATES = 10;
const MAX_RSA_BITS = 4_096;

/** Why the gate cannot serve this certificate, or every client would refuse it; undefined if there is no problem. */
export function certificateProblem(chain: string, key: string, nowMs: number): string | undefined {
  if (Math.max(chain.length, key.length) > MAX_PEM_LENGTH)
    return "tls.crt or tls.key is larger than 64 KiB, the maximum";
  const certificates = chain.split("-----BEGIN CERTIFICATE-----").length - 1;
  if (certificates > MAX_CERTIFICATES)
    return `tls.crt has ${certificates} certificates; the maximum is ${MAX_CERTIFICATES}`;
  try {
    const certificate = new X509Certificate(chain);
    const { modulusLength: bits = 0 } = certificate.publicKey.asymmetricKeyDetails ?? {};
    if (bits > MAX_RSA_BITS) return `the key has ${bits} bits; the maximum for RSA is ${MAX_RSA_BITS}`;
    if (!certificate.checkPrivateKey(createPrivateKey(key))) return "tls.key is not the key of tls.crt";
    if (nowMs >= certificate.validToDate.getTime())
      return `the certificate has expired on ${certificate.validToDate.toISOString()}`;
    if (nowMs < certificate.validFromDate.getTime())
      return `the certificate is not valid before ${certificate.validFromDate.toISOString()}`;
    createSecureContext({ cert: chain, key });
    return undefined;
  } catch (error) {
    return `tls.crt or tls.key cannot be read: ${error instanceof Error ? error.message : String(error)}`;
  }
}

/** Why the gate cannot verify clients with these CA certificates; undefined if there is no problem. */
export function clientCAProblem(pem: string, nowMs: number): string | undefined {
  if (pem.length > MAX_PEM_LENGTH) return "ca.crt is larger than 64 KiB, the maximum";
  const blocks = pem.match(/-----BEGIN CERTIFICATE-----[^-]*-----END CERTIFICATE-----/g) ?? [];
  if (blocks.length === 0) return "ca.crt has no certificate";
  if (blocks.length > MAX_CERTIFICATES)
    return `ca.crt has ${blocks.length} certificates; the maximum is ${MAX_CERTIFICATES}`;
  try {
    const ends = blocks.map((block) => new X509Certificate(block).validToDate.getTime());
    return ends.every((end) => end <= nowMs) ? "all certificates in ca.crt have expired" : undefined;
  } catch (error) {
    return `ca.crt cannot be read: ${errorMessage(error)}`;
  }
}

function textIn(path: string): string | undefined {
  try {
    return readFileSync(path, "utf8");
  } catch {
    return undefined;
  }
}
