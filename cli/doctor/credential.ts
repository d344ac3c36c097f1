/** Reads from the credential in a kubeconfig how long the credential is valid. */
import { X509Certificate } from "node:crypto";
import { readFile } from "node:fs/promises";
import type { CredentialReading, Reading } from "../../src/doctor/readings.ts";
import { type KubeconfigSource, loadKubeconfig } from "../../src/kube/client/kubeconfig.ts";
import { decodeToken } from "../../src/kube/token.ts";

/** Undefined for a plugin, which renews its credentials. Throws MetalbridgeError for a kubeconfig that cannot work. */
export async function readCredential(
  source: KubeconfigSource,
): Promise<Reading<CredentialReading> | undefined> {
  const user = loadKubeconfig(source).getCurrentUser();
  if (user === null || user.exec !== undefined) return undefined;
  const file = tokenFileOf(user.authProvider);
  const token = file === undefined ? user.token : (await readFile(file, "utf8")).trim();
  if (token !== undefined && token !== "") return readTokenValidity(token);
  const certificate =
    user.certData === undefined
      ? user.certFile && (await readFile(user.certFile, "utf8"))
      : Buffer.from(user.certData, "base64");
  if (certificate === undefined || certificate === "")
    return { unknown: "the kubeconfig has neither token nor certificate" };
  const { validFromDate, validToDate } = new X509Certificate(certificate);
  return { value: { kind: "certificate", fromMs: validFromDate.getTime(), untilMs: validToDate.getTime() } };
}

export function tokenFileOf(authProvider: unknown): string | undefined {
  const config =
    typeof authProvider === "object" && authProvider !== null && Reflect.get(authProvider, "config");
  const file = typeof config === "object" && config !== null && Reflect.get(config, "tokenFile");
  return typeof file === "string" && file !== "" ? file : undefined;
}

function readTokenValidity(token: string): Reading<CredentialReading> {
  const claims = decodeToken(token);
  if (claims === undefined)
    return { unknown: "the token is not a JSON Web Token: how long it is valid cannot be read" };
  const toMs = (seconds: unknown) => (typeof seconds === "number" ? seconds * 1_000 : undefined);
  return { value: { kind: "token", fromMs: toMs(claims.iat), untilMs: toMs(claims.exp) } };
}
