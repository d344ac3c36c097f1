/** Starts `metalbridge up` in a separate session and waits until it reports ready. */
import { spawn } from "node:child_process";
import { closeSync, mkdirSync, openSync } from "node:fs";
import path from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { MetalbridgeError } from "../../src/api/errors.ts";
import { packageRoot } from "../package-root.ts";
import { tailOf } from "./process/log-tail.ts";
import { findControlPlaneSession, type SessionInfo } from "./session.ts";
import { ensureFolder } from "./state/folder.ts";
import { controlPlaneLayoutOf } from "./state/layout.ts";

const READY_WITHIN_MS = 120_000;
const POLL_MS = 100;

/** Throws ControlPlanePartFailed with the end of the log if the process exits or is not ready in time. */
export async function startDetached(options: {
  readonly dir: string;
  readonly port?: number | undefined;
  /** Path of a KubeSchedulerConfiguration. */
  readonly schedulerConfig?: string | undefined;
  readonly gateway: boolean;
  readonly console: boolean;
  readonly gatewayAddress?: string | undefined;
  readonly userJwtSecretFile?: string | undefined;
}): Promise<SessionInfo> {
  const layout = controlPlaneLayoutOf(options.dir);
  await ensureFolder(layout.dir);
  mkdirSync(layout.logs, { recursive: true, mode: 0o700 });
  const logFile = layout.log("up");
  const log = openSync(logFile, "w", 0o600);
  const port = options.port === undefined ? [] : ["--port", String(options.port)];
  const { schedulerConfig, gateway, gatewayAddress, userJwtSecretFile } = options;
  const gatewayFlags = gateway ? [] : ["--no-gateway"];
  if (!options.console) gatewayFlags.push("--no-console");
  if (gatewayAddress !== undefined) gatewayFlags.push("--gateway-address", gatewayAddress);
  if (userJwtSecretFile !== undefined) gatewayFlags.push("--user-jwt-secret-file", userJwtSecretFile);
  const scheduler = schedulerConfig === undefined ? [] : ["--scheduler-config", schedulerConfig];
  const program = path.join(packageRoot(), "cli", "metalbridge.mjs");
  const child = spawn(
    process.execPath,
    [program, "up", "--dir", layout.dir, ...port, ...scheduler, ...gatewayFlags],
    {
      stdio: ["ignore", log, log],
      detached: true,
    },
  );
  closeSync(log);
  let ended: string | undefined;
  child.once("error", (error) => {
    ended = error.message;
  });
  child.once("exit", (code, signal) => {
    ended = `it exited with ${signal ?? `exit code ${code}`}`;
  });
  const deadline = performance.now() + READY_WITHIN_MS;
  while (ended === undefined && performance.now() < deadline) {
    const info = await findControlPlaneSession(layout.dir).catch(() => undefined);
    if (info?.state === "ready") {
      child.unref();
      return info;
    }
    await pause(POLL_MS);
  }
  if (ended === undefined) child.kill("SIGTERM");
  const why = ended ?? `it was not ready within ${READY_WITHIN_MS / 1000} s`;
  throw new MetalbridgeError("ControlPlanePartFailed", `the detached control plane did not start: ${why}`, {
    summary: `its log (${logFile}) ends with:\n${tailOf(logFile, 2_000)}`,
  });
}
