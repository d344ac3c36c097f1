/** The real Envoy of the gateway, from the places where setup and `metalbridge gateway` look. */
import { globSync, readFileSync, statSync } from "node:fs";
import path from "node:path";
import { readPartsConfig } from "../../local/control-plane/config.ts";
import { findEnvoy } from "../../local/control-plane/engine-programs.ts";

/** Undefined where none is installed: its tests are skipped then (describe-unless.ts). */
export const envoyPath: string | undefined = findEnvoy(readPartsConfig());

/** Pids of the Envoys in a gateway's folder, the newest last; those that have exited included. */
export function envoyPids(gatewayDir: string): readonly number[] {
  const folder = path.join(gatewayDir, "processes");
  return globSync("*/pid", { cwd: folder })
    .map((name) => path.join(folder, name))
    .sort((a, b) => statSync(a).mtimeMs - statSync(b).mtimeMs)
    .map((file) => Number.parseInt(readFileSync(file, "utf8"), 10));
}

/** Undefined where Envoy is installed, else the reason for skipping a test. */
export const whyNoEnvoy: string | undefined =
  envoyPath === undefined ? "needs Envoy: npm run setup" : undefined;
