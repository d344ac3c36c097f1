/** Aggregation of APIs, which a control plane of a test has only if it asks for it: the identity of the aggregator. */
import { mkdirSync, writeFileSync } from "node:fs";
import path from "node:path";
import { createCertificate } from "../../src/crypto/certificate.ts";

/** Common name of the aggregator's certificate, as kubeadm chooses it. */
const NAME = "front-proxy-client";

/** Writes the certificates to a folder. Resolves with the flags of kube-apiserver. */
export function aggregationArgs(folder: string): readonly string[] {
  mkdirSync(folder, { recursive: true });
  const authority = createCertificate({ name: "front-proxy-ca", isAuthority: true });
  const client = createCertificate({ name: NAME, issuer: { name: "front-proxy-ca", key: authority.key } });
  const write = (name: string, text: string) => {
    const file = path.join(folder, name);
    writeFileSync(file, text, { mode: 0o600 });
    return file;
  };
  return [
    `--requestheader-client-ca-file=${write("front-proxy-ca.crt", authority.cert)}`,
    `--requestheader-allowed-names=${NAME}`,
    "--requestheader-username-headers=X-Remote-User",
    "--requestheader-group-headers=X-Remote-Group",
    "--requestheader-extra-headers-prefix=X-Remote-Extra-",
    `--proxy-client-cert-file=${write("front-proxy-client.crt", client.cert)}`,
    `--proxy-client-key-file=${write("front-proxy-client.key", client.key)}`,
  ];
}
