/** Removes an old certificate before a start: the API server then creates a new one, which is valid for a year. */
import { X509Certificate } from "node:crypto";
import { existsSync, readFileSync, rmSync } from "node:fs";
import path from "node:path";

const RENEW_BEFORE_MS = 60 * 24 * 3_600_000;

/** The file in --cert-dir that kube-apiserver creates, with its certificate and authority. */
export function certificateFile(folder: string): string {
  return path.join(folder, "apiserver.crt");
}

/** Removes certificate and key if the certificate expires within two months or cannot be read. */
export function dropOldCertificate(folder: string, nowMs: number): boolean {
  const file = certificateFile(folder);
  if (!existsSync(file) || isGood(file, nowMs)) return false;
  rmSync(file, { force: true });
  rmSync(path.join(folder, "apiserver.key"), { force: true });
  return true;
}

function isGood(file: string, nowMs: number): boolean {
  try {
    const certificate = new X509Certificate(readFileSync(file));
    return certificate.validToDate.getTime() - nowMs > RENEW_BEFORE_MS;
  } catch {
    return false;
  }
}
