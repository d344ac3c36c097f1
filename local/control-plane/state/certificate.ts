/** The API server makes its own certificate, good for a year; an old one is removed before a start, so that it makes a new one. */
import { X509Certificate } from "node:crypto";
import { existsSync, readFileSync, rmSync } from "node:fs";
import path from "node:path";

const RENEW_BEFORE_MS = 60 * 24 * 3_600_000;

/** Where kube-apiserver puts certificate and authority in its --cert-dir. */
export function certificateFile(folder: string): string {
  return path.join(folder, "apiserver.crt");
}

/** Removes the pair when it has less than two months left, or cannot be read. */
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
