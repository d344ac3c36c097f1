/**
 * Plans the certificates of gateways and relays, which are stored in a Secret. Hosts recognize them by their fingerprints, and ignore
 * their dates: the start of a certificate's validity only records when it was made. Pure except for random keys.
 */
import { createPrivateKey, X509Certificate } from "node:crypto";
import { createCertificate } from "../../../src/crypto/certificate.ts";
import { fingerprintOfCertificate } from "../../../src/kube/remote/fingerprint.ts";
import { defined } from "../../../src/util/defined.ts";

/** PEM texts, by the keys of the Secret's data. */
export interface ClientCertificates {
  readonly "tls.crt": string;
  readonly "tls.key": string;
  /** The successor, which hosts already accept. */
  readonly "next.crt"?: string;
  readonly "next.key"?: string;
  /** The predecessor, which some clients may still use. */
  readonly "previous.crt"?: string;
}

export interface ClientCertificatesPlan {
  readonly certificates: ClientCertificates;
  /** The change; undefined if the certificates stay. */
  readonly because?: string;
  /** Time of the next check. */
  readonly dueMs: number;
}

const DAY_MS = 86_400_000;
const USED_MS = 30 * DAY_MS;
/** For this long hosts accept a successor before clients use it, and a predecessor afterwards. */
const OVERLAP_MS = DAY_MS;
const FOREVER_MS = Date.UTC(9999, 11, 31, 23, 59, 59);
const NAME = "metalbridge-transport";

interface Pair {
  readonly cert: string;
  readonly key: string;
  readonly madeMs: number;
}

export function planClientCertificates(
  found: Readonly<Partial<Record<string, string>>>,
  nowMs: number,
): ClientCertificatesPlan {
  const current = readPair(found["tls.crt"], found["tls.key"]);
  if (current === undefined) {
    const { cert, key } = made(nowMs);
    const certificates = { "tls.crt": cert, "tls.key": key };
    return { certificates, because: "a new certificate", dueMs: nowMs + USED_MS };
  }
  const inUse = { "tls.crt": current.cert, "tls.key": current.key };
  const next = readPair(found["next.crt"], found["next.key"]);
  // Made by a clock that was ahead.
  const isNextUsable = next !== undefined && next.madeMs <= nowMs + OVERLAP_MS;
  if (next !== undefined && isNextUsable) {
    const dueMs = next.madeMs + OVERLAP_MS;
    if (nowMs < dueMs)
      return { certificates: { ...inUse, "next.crt": next.cert, "next.key": next.key }, dueMs };
    const certificates = { "tls.crt": next.cert, "tls.key": next.key, "previous.crt": current.cert };
    return { certificates, because: "the next certificate is in use", dueMs: dueMs + OVERLAP_MS };
  }
  const isOld = current.madeMs > nowMs + OVERLAP_MS || nowMs - current.madeMs >= USED_MS;
  if (isOld) {
    const { cert, key } = made(nowMs);
    const certificates = { ...inUse, "next.crt": cert, "next.key": key };
    return { certificates, because: "a successor", dueMs: nowMs + OVERLAP_MS };
  }
  const previous = readCertificate(found["previous.crt"])?.pem;
  const endMs = current.madeMs + 2 * OVERLAP_MS;
  if (previous !== undefined && nowMs >= endMs)
    return {
      certificates: inUse,
      because: "the previous certificate has expired",
      dueMs: current.madeMs + USED_MS,
    };
  const dueMs = previous === undefined ? current.madeMs + USED_MS : endMs;
  return { certificates: defined<ClientCertificates>({ ...inUse, "previous.crt": previous }), dueMs };
}

/** Fingerprints of all certificates in the Secret, the current one first. */
export function clientFingerprints(found: Readonly<Partial<Record<string, string>>>): readonly string[] {
  return ["tls.crt", "next.crt", "previous.crt"].flatMap(
    (file) => readCertificate(found[file])?.fingerprint ?? [],
  );
}

function made(nowMs: number) {
  return createCertificate({ name: NAME, valid: { fromMs: nowMs, untilMs: FOREVER_MS } });
}

function readPair(cert: string | undefined, key: string | undefined): Pair | undefined {
  const known = readCertificate(cert);
  if (known === undefined || key === undefined) return undefined;
  try {
    if (!known.certificate.checkPrivateKey(createPrivateKey(key))) return undefined;
  } catch {
    return undefined;
  }
  return { cert: known.pem, key, madeMs: known.certificate.validFromDate.getTime() };
}

function readCertificate(pem: string | undefined) {
  if (pem === undefined) return undefined;
  try {
    const certificate = new X509Certificate(pem);
    return { pem, certificate, fingerprint: fingerprintOfCertificate(certificate) };
  } catch {
    return undefined;
  }
}
