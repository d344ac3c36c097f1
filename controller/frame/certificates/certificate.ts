/** Plans the certificate of a server of the controller and its authorities, which are stored in a Secret. Pure except for random keys. */
import { createPrivateKey, X509Certificate } from "node:crypto";
import { isIP } from "node:net";
import { createCertificate } from "../../../src/crypto/certificate.ts";

/** PEM texts, by the keys of the Secret's data. */
export interface Certificates {
  /** Authorities, the newest first. A new authority is trusted for a while before a certificate uses it. */
  readonly "ca.crt": string;
  /** Key of the newest authority. */
  readonly "ca.key": string;
  readonly "tls.crt": string;
  readonly "tls.key": string;
}

export interface CertificatePlan {
  readonly certificates: Certificates;
  /** The change; undefined if the certificates stay. */
  readonly because?: string;
  /** Time of the next check. */
  readonly dueMs: number;
}

const DAY_MS = 86_400_000;
/** Lifetime of a certificate. */
export const CERTIFICATE_MS = 90 * DAY_MS;
const AUTHORITY_MS = 3_650 * DAY_MS;
/** Validity starts this long in the past, because clocks of other machines may be behind. */
const BEFORE_MS = 3_600_000;
const AUTHORITY_NAME = "metalbridge-preflight-ca";

/**
 * Renews the certificate when a third of its lifetime is left. An authority is replaced when less than two lifetimes of a
 * certificate are left. The previous authority stays trusted until it expires.
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
  const keepsAuthority = newest !== undefined && untilMs(newest) - nowMs >= 2 * lifetimeMs;
  const authority = keepsAuthority
    ? { cert: "", key: known?.files["ca.key"] ?? "" }
    : createCertificate({
        name: AUTHORITY_NAME,
        isAuthority: true,
        valid: { fromMs: nowMs - BEFORE_MS, untilMs: nowMs + AUTHORITY_MS },
      });
  const leaf = known && servable(known.leaf, trusted, names, nowMs);
  const leftMs = leaf === undefined ? 0 : untilMs(leaf) - nowMs;
  // A new authority issues only the next certificate, because some API servers may not trust it yet.
  const keepsLeaf = leftMs > 0 && (leftMs >= lifetimeMs / 3 || !keepsAuthority);
  const served =
    keepsLeaf && known !== undefined
      ? { "tls.crt": known.files["tls.crt"], "tls.key": known.files["tls.key"] }
      : issue(authority.key, names, nowMs, lifetimeMs);
  const until = nowMs + (keepsLeaf ? leftMs : lifetimeMs);
  const because = [
    ...(keepsAuthority ? [] : ["a new authority"]),
    ...(keepsLeaf ? [] : [`a certificate until ${new Date(until).toISOString().slice(0, 10)}`]),
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

/** Undefined if a part is missing or unreadable. */
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

/** Returns the certificate if a trusted authority issued it, it has not expired, and it covers all names. */
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
