/** Bearer tokens and the key pair for service account tokens, which are created once per control plane. */
import { generateKeyPairSync, randomBytes } from "node:crypto";
import { existsSync, readFileSync } from "node:fs";
import { writeFileAtomicSync } from "../../../src/util/atomic-file.ts";
import type { ControlPlaneLayout } from "./layout.ts";

export interface ControlPlaneCredentials {
  readonly adminToken: string;
  readonly controllerManagerToken: string;
  readonly schedulerToken: string;
}

const ADMIN = "metalbridge-admin";
const CONTROLLER_MANAGER = "system:kube-controller-manager";
const SCHEDULER = "system:kube-scheduler";

/** Reads the credentials of an earlier run, or creates them. */
export function ensureCredentials(layout: ControlPlaneLayout): ControlPlaneCredentials {
  ensureServiceAccountKeys(layout);
  const known = readTokens(layout);
  const credentials = {
    adminToken: known.get(ADMIN) ?? newToken(),
    controllerManagerToken: known.get(CONTROLLER_MANAGER) ?? newToken(),
    schedulerToken: known.get(SCHEDULER) ?? newToken(),
  };
  writeFileAtomicSync(layout.tokens, renderTokens(credentials));
  return credentials;
}

/** The API server's token file: token, user, uid, groups. */
function renderTokens(credentials: ControlPlaneCredentials): string {
  return [
    `${credentials.adminToken},${ADMIN},1,"system:masters"`,
    `${credentials.controllerManagerToken},${CONTROLLER_MANAGER},2,`,
    `${credentials.schedulerToken},${SCHEDULER},3,`,
    "",
  ].join("\n");
}

function readTokens(layout: ControlPlaneLayout): Map<string, string> {
  if (!existsSync(layout.tokens)) return new Map();
  const rows = readFileSync(layout.tokens, "utf8")
    .split("\n")
    .map((line) => line.split(","));
  return new Map(rows.flatMap(([token, user]) => (token && user ? [[user, token] as const] : [])));
}

function newToken(): string {
  return randomBytes(32).toString("hex");
}

/** Writes the public key first: after a crash between the two writes, the next start generates both again. */
function ensureServiceAccountKeys(layout: ControlPlaneLayout): void {
  if (existsSync(layout.serviceAccountKey) && existsSync(layout.serviceAccountPublicKey)) return;
  const pair = generateKeyPairSync("rsa", {
    modulusLength: 2048,
    publicKeyEncoding: { type: "spki", format: "pem" },
    privateKeyEncoding: { type: "pkcs8", format: "pem" },
  });
  writeFileAtomicSync(layout.serviceAccountPublicKey, pair.publicKey);
  writeFileAtomicSync(layout.serviceAccountKey, pair.privateKey);
}
