/** Tokens of real accounts with times of the test's choice, signed with the key of the test's own API server. */
import { createPrivateKey, sign } from "node:crypto";
import { readFileSync } from "node:fs";
import path from "node:path";
import { SERVICE_ACCOUNT_ISSUER } from "../../local/control-plane/components/api-server.ts";
import { controlPlaneLayoutOf } from "../../local/control-plane/state/layout.ts";
import { NAMESPACE_HOSTS } from "../../src/api/group.ts";
import type { TestCluster } from "../cluster/cluster.ts";

export interface TokenTimes {
  /** Seconds before now. */
  readonly issued: number;
  /** Seconds after now. */
  readonly expires: number;
  /** The Secret that it ends with. */
  readonly secret?: string;
  /** Namespace of the account; the hosts' by default. */
  readonly namespace?: string;
  /** The API server's unless given. */
  readonly audience?: string;
}

/** A token of the account, usually a host's, which has to exist. */
export async function signToken(
  cluster: Pick<TestCluster, "kubeconfig" | "kubectl">,
  name: string,
  { issued, expires, secret, namespace = NAMESPACE_HOSTS, audience = SERVICE_ACCOUNT_ISSUER }: TokenTimes,
): Promise<string> {
  const get = ["get", "serviceaccount", name, "-n", namespace, "-o", "jsonpath={.metadata.uid}"];
  const uid = await cluster.kubectl(get);
  const uidOfSecret = async (its: string) =>
    cluster.kubectl(["get", "secret", its, "-n", namespace, "-o", "jsonpath={.metadata.uid}"]);
  const bound =
    secret === undefined ? undefined : { secret: { name: secret, uid: await uidOfSecret(secret) } };
  const now = Math.floor(Date.now() / 1_000);
  const claims = {
    iss: SERVICE_ACCOUNT_ISSUER,
    aud: [audience],
    sub: `system:serviceaccount:${namespace}:${name}`,
    iat: now - issued,
    nbf: now - issued,
    exp: now + expires,
    "kubernetes.io": { namespace, serviceaccount: { name, uid }, ...bound },
  };
  const part = (value: object) => Buffer.from(JSON.stringify(value)).toString("base64url");
  const text = `${part({ alg: "RS256", typ: "JWT" })}.${part(claims)}`;
  const key = readFileSync(controlPlaneLayoutOf(path.dirname(cluster.kubeconfig)).serviceAccountKey, "utf8");
  return `${text}.${sign("RSA-SHA256", Buffer.from(text), createPrivateKey(key)).toString("base64url")}`;
}
