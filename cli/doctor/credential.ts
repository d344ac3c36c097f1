/** The life of the credential in a kubeconfig, as the credential itself says it. */
import { X509Certificate } from "node:crypto";
import { readFile } from "node:fs/promises";
import type { CredentialReading, Reading } from "../../src/doctor/readings.ts";
import { type KubeconfigSource, loadKubeconfig } from "../../src/kube/client/kubeconfig.ts";

/** Undefined for a plugin, which renews what it gives. Throws MetalbridgeError where the kubeconfig cannot work. */
export async function readCredential(
  source: KubeconfigSource,
): Promise<Reading<CredentialReading> | undefined> {
  const user = loadKubeconfig(source).getCurrentUser();
  if (user === null || user.exec !== undefined) return undefined;
  const file = tokenFileOf(user.authProvider);
  const token = file === undefined ? user.token : (await readFile(file, "utf8")).trim();
  if (token !== undefined && token !== "") return lifeOfToken(token);
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

/** Tokens of ServiceAccounts are JSON Web Tokens; their claims are read, not verified. */
function lifeOfToken(token: string): Reading<CredentialReading> {
  try {
    const claims: unknown = JSON.parse(Buffer.from(token.split(".")[1] ?? "", "base64url").toString("utf8"));
    const seconds = (name: string): number | undefined => {
      const value: unknown =
        typeof claims === "object" && claims !== null ? Reflect.get(claims, name) : undefined;
      return typeof value === "number" ? value * 1_000 : undefined;
    };
    return { value: { kind: "token", fromMs: seconds("iat"), untilMs: seconds("exp") } };
  } catch {
    return { unknown: "the token is not a JSON Web Token: how long it is valid cannot be read" };
  }
}
