/** X.509 certificates for P-256 keys: self-signed, or signed by our own authority. */
import { createPrivateKey, generateKeyPairSync, type KeyObject, randomBytes, sign } from "node:crypto";
import { isIPv4, isIPv6 } from "node:net";
import { ipv6Groups } from "../util/ip-address.ts";

/** Key and certificate in PEM. */
export interface KeyedCertificate {
  readonly key: string;
  readonly cert: string;
}

export interface CertificateRequest {
  /** Common name. */
  readonly name: string;
  /** Subject alternative names: DNS names and IP addresses. */
  readonly hosts?: readonly string[];
  /** In ms since 1970. Absent: valid at all times. */
  readonly valid?: { readonly fromMs: number; readonly untilMs: number };
  /** True if it may sign other certificates. */
  readonly isAuthority?: boolean;
  /** Absent: self-signed. */
  readonly issuer?: { readonly name: string; readonly key: string };
}

const ECDSA_WITH_SHA256 = "2a8648ce3d040302";
const COMMON_NAME = "550403";
const BASIC_CONSTRAINTS = "551d13";
const SUBJECT_ALT_NAME = "551d11";
const ALWAYS = { from: der(0x17, ascii("000101000000Z")), until: der(0x18, ascii("99991231235959Z")) };

export function createCertificate(request: CertificateRequest): KeyedCertificate {
  const { publicKey, privateKey } = generateKeyPairSync("ec", { namedCurve: "P-256" });
  const { name, valid, issuer } = request;
  const { from, until } =
    valid === undefined ? ALWAYS : { from: time(valid.fromMs), until: time(valid.untilMs) };
  const algorithm = der(0x30, oid(ECDSA_WITH_SHA256));
  const serial = randomBytes(16);
  serial.writeUInt8(0x40 | (serial.readUInt8(0) & 0x3f), 0);
  const extensions = extensionsOf(request);
  const body = der(
    0x30,
    der(0xa0, der(0x02, Buffer.from([2]))),
    der(0x02, serial),
    algorithm,
    distinguishedName(issuer?.name ?? name),
    der(0x30, from, until),
    distinguishedName(name),
    publicKey.export({ type: "spki", format: "der" }),
    ...(extensions.length === 0 ? [] : [der(0xa3, der(0x30, ...extensions))]),
  );
  const signer: KeyObject = issuer === undefined ? privateKey : createPrivateKey(issuer.key);
  const signature = Buffer.concat([Buffer.from([0]), sign("sha256", body, signer)]);
  const lines = der(0x30, body, algorithm, der(0x03, signature))
    .toString("base64")
    .replace(/.{64}(?=.)/g, "$&\n");
  return {
    key: privateKey.export({ type: "pkcs8", format: "pem" }) as string,
    cert: `-----BEGIN CERTIFICATE-----\n${lines}\n-----END CERTIFICATE-----\n`,
  };
}

function extensionsOf({ hosts = [], isAuthority = false }: CertificateRequest): Buffer[] {
  const yes = der(0x01, Buffer.from([0xff]));
  return [
    ...(isAuthority ? [der(0x30, oid(BASIC_CONSTRAINTS), yes, der(0x04, der(0x30, yes)))] : []),
    ...(hosts.length === 0
      ? []
      : [der(0x30, oid(SUBJECT_ALT_NAME), der(0x04, der(0x30, ...hosts.map(generalName))))]),
  ];
}

function generalName(host: string): Buffer {
  if (isIPv4(host)) return der(0x87, Buffer.from(host.split(".").map(Number)));
  if (!isIPv6(host)) return der(0x82, ascii(host));
  return der(0x87, Buffer.from(ipv6Groups(host).flatMap((group) => [group >> 8, group & 0xff])));
}

function distinguishedName(name: string): Buffer {
  return der(0x30, der(0x31, der(0x30, oid(COMMON_NAME), der(0x0c, Buffer.from(name)))));
}

/** UTCTime before 2050, GeneralizedTime from 2050 (RFC 5280). */
function time(ms: number): Buffer {
  const digits = new Date(ms)
    .toISOString()
    .replace(/\.\d+Z$/, "Z")
    .replaceAll(/[-:T]/g, "");
  return digits >= "2050" ? der(0x18, ascii(digits)) : der(0x17, ascii(digits.slice(2)));
}

function oid(hex: string): Buffer {
  return der(0x06, Buffer.from(hex, "hex"));
}

function ascii(text: string): Buffer {
  return Buffer.from(text, "latin1");
}

function der(tag: number, ...parts: readonly Buffer[]): Buffer {
  const body = Buffer.concat(parts);
  const { length } = body;
  const size =
    length < 0x80 ? [length] : length < 0x100 ? [0x81, length] : [0x82, length >> 8, length & 0xff];
  return Buffer.concat([Buffer.from([tag, ...size]), body]);
}
