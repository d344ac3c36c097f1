/** What this host proves itself with to other hosts: a key pair with a certificate of its own, new at each start and never on disk. */
import { createHash, generateKeyPairSync, randomBytes, sign } from "node:crypto";
import type { TLSSocket } from "node:tls";

export interface Identity {
  /** PEM. */
  readonly key: string;
  readonly cert: string;
  /** SHA-256 of the certificate: 64 hex digits in lower case. */
  readonly fingerprint: string;
}

const ECDSA_WITH_SHA256 = "2a8648ce3d040302";
const COMMON_NAME = "550403";
/** Nothing reads the dates: the fingerprint in the Host's status decides, and hosts' clocks may be wrong. */
const FROM = "000101000000Z";
const UNTIL = "99991231235959Z";

/** Self-signed: the API server vouches for it, since only this host may write the status of its Host. */
export function createIdentity(hostName: string): Identity {
  const { publicKey, privateKey } = generateKeyPairSync("ec", { namedCurve: "P-256" });
  const algorithm = der(0x30, der(0x06, Buffer.from(ECDSA_WITH_SHA256, "hex")));
  const attribute = der(0x30, der(0x06, Buffer.from(COMMON_NAME, "hex")), der(0x0c, Buffer.from(hostName)));
  const name = der(0x30, der(0x31, attribute));
  const serial = randomBytes(16);
  serial.writeUInt8(0x40 | (serial.readUInt8(0) & 0x3f), 0);
  const body = der(
    0x30,
    der(0xa0, der(0x02, Buffer.from([2]))),
    der(0x02, serial),
    algorithm,
    name,
    der(0x30, der(0x17, Buffer.from(FROM)), der(0x18, Buffer.from(UNTIL))),
    name,
    publicKey.export({ type: "spki", format: "der" }),
  );
  const signature = Buffer.concat([Buffer.from([0]), sign("sha256", body, privateKey)]);
  const certificate = der(0x30, body, algorithm, der(0x03, signature));
  const lines = certificate.toString("base64").replace(/.{64}(?=.)/g, "$&\n");
  return {
    key: privateKey.export({ type: "pkcs8", format: "pem" }) as string,
    cert: `-----BEGIN CERTIFICATE-----\n${lines}\n-----END CERTIFICATE-----\n`,
    fingerprint: createHash("sha256").update(certificate).digest("hex"),
  };
}

/** Of the certificate whose key the other side has proved to hold; undefined where it sent none. */
export function fingerprintOf(socket: TLSSocket): string | undefined {
  return socket.getPeerX509Certificate()?.fingerprint256.replaceAll(":", "").toLowerCase();
}

function der(tag: number, ...parts: readonly Buffer[]): Buffer {
  const body = Buffer.concat(parts);
  const { length } = body;
  const size =
    length < 0x80 ? [length] : length < 0x100 ? [0x81, length] : [0x82, length >> 8, length & 0xff];
  return Buffer.concat([Buffer.from([tag, ...size]), body]);
}
