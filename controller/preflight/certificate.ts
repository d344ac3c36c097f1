/** The certificate of the webhook in its Secret: when it is made, renewed, and what the API server has to trust. Pure but for the dice. */
import { createPrivateKey, X509Certificate } from "node:crypto";
import { isIP } from "node:net";
import { createCertificate } from "../../src/crypto/certificate.ts";

/** PEM; the keys of the Secret's data. */
export interface Certificates {
  /** Authorities, the newest first. A new one is trusted for a while before a certificate needs it. */
  readonly "ca.crt": string;
  /** Of the newest. */
  readonly "ca.key": string;
  readonly "tls.crt": string;
  readonly "tls.key": string;
}

export interface CertificatePlan {
  readonly certificates: Certificates;
  /** Undefined: they stay as they are. */
  readonly because?: string;
  /** When to look again. */
  readonly dueMs: number;
}

const DAY_MS = 86_400_000;
const AUTHORITY_MS = 3_650 * DAY_MS;
/** Clocks of other machines may be behind. */
const BEFORE_MS = 3_600_000;
const AUTHORITY_NAME = "metalbridge-preflight-ca";

/**
 * Renews the certificate when a third of its time is left. An authority is replaced when less than two certificates' time is
 * left, and the one before stays trusted until it expires.
 */
export function planCertificates(
  found: Partial<Certificates>,
  names: readonly string[],
  lifetimeMs: number,
  nowMs: number,
): CertificatePlan {
  const known = readable(found);
  const trusted = known === undefined ? [] : known.authorities.filter((one) => untilMs(one) > nowMs);
  const [newest] = trusted;
  const isAuthorityKept = newest !== undefined && untilMs(newest) - nowMs >= 2 * lifetimeMs;
  const authority = isAuthorityKept
    ? { cert: "", key: known?.files["ca.key"] ?? "" }
    : createCertificate({
        name: AUTHORITY_NAME,
        isAuthority: true,
        valid: { fromMs: nowMs - BEFORE_MS, untilMs: nowMs + AUTHORITY_MS },
      });
  const leaf = known && servable(known.leaf, trusted, names, nowMs);
  const leftMs = leaf === undefined ? 0 : untilMs(leaf) - nowMs;
  // A certificate of a new authority waits for its next turn: not every API server may trust it yet.
  const isLeafKept = leftMs > 0 && (leftMs >= lifetimeMs / 3 || !isAuthorityKept);
  const served =
    isLeafKept && known !== undefined ? servedIn(known) : issue(authority.key, names, nowMs, lifetimeMs);
  const until = nowMs + (isLeafKept ? leftMs : lifetimeMs);
  const because = [
    ...(isAuthorityKept ? [] : ["a new authority"]),
    ...(isLeafKept ? [] : [`a certificate until ${new Date(until).toISOString().slice(0, 10)}`]),
  ].join(" and ");
  return {
    certificates: {
      "ca.crt": [authority.cert, ...trusted.map((one) => `${one.toString().trimEnd()}\n`)].join(""),
      "ca.key": authority.key,
      ...served,
    },
    because: because === "" ? undefined : because,
    dueMs: until - lifetimeMs / 3,
  };
}

function servedIn({ files }: Known): Pick<Certificates, "tls.crt" | "tls.key"> {
  return { "tls.crt": files["tls.crt"], "tls.key": files["tls.key"] };
}

function issue(
  key: string,
  names: readonly string[],
  nowMs: number,
  lifetimeMs: number,
): Pick<Certificates, "tls.crt" | "tls.key"> {
  const made = createCertificate({
    name: names[0] ?? AUTHORITY_NAME,
    hosts: names,
    valid: { fromMs: nowMs - BEFORE_MS, untilMs: nowMs + lifetimeMs },
    issuer: { name: AUTHORITY_NAME, key },
  });
  return { "tls.crt": made.cert, "tls.key": made.key };
}

interface Known {
  readonly files: Certificates;
  readonly authorities: readonly X509Certificate[];
  readonly leaf: X509Certificate;
}

/** Undefined if a part is missing, or is nothing that can be read. */
function readable(found: Partial<Certificates>): Known | undefined {
  const { "ca.crt": ca, "ca.key": caKey, "tls.crt": cert, "tls.key": key } = found;
  if (ca === undefined || caKey === undefined || cert === undefined || key === undefined) return undefined;
  try {
    const authorities = (ca.match(/-----BEGIN CERTIFICATE-----[^-]+-----END CERTIFICATE-----/g) ?? []).map(
      (pem) => new X509Certificate(pem),
    );
    const leaf = new X509Certificate(cert);
    if (!leaf.checkPrivateKey(createPrivateKey(key))) return undefined;
    if (authorities[0]?.checkPrivateKey(createPrivateKey(caKey)) !== true) return undefined;
    return {
      files: { "ca.crt": ca, "ca.key": caKey, "tls.crt": cert, "tls.key": key },
      authorities,
      leaf,
    };
  } catch {
    return undefined;
  }
}

/** The certificate, where it is of a trusted authority, not expired, and for all names. */
function servable(
  leaf: X509Certificate,
  trusted: readonly X509Certificate[],
  names: readonly string[],
  nowMs: number,
): X509Certificate | undefined {
  const isTrusted = trusted.some((one) => leaf.verify(one.publicKey));
  const isForAll = names.every(
    (name) => (isIP(name) === 0 ? leaf.checkHost(name) : leaf.checkIP(name)) !== undefined,
  );
  return isTrusted && isForAll && untilMs(leaf) > nowMs ? leaf : undefined;
}

function untilMs({ validTo }: X509Certificate): number {
  return Date.parse(validTo);
}
