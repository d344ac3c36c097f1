/** The Prometheus operator's definitions, for tests that apply our monitors and rules: from its Go module, whose archive holds them. */
import { cpSync, existsSync } from "node:fs";
import { join } from "node:path";
import { cacheDir } from "./cache.mjs";
import { findOnPath, run } from "./command.mjs";
import { fillFolder } from "./fill-folder.mjs";

const MODULE = "github.com/prometheus-operator/prometheus-operator@v0.85.0";
const KINDS = ["podmonitors", "servicemonitors", "prometheusrules"];

/** The folder with one file per definition; undefined where there is none. */
export function findMonitoringCrds(env = process.env) {
  const folder = folderIn(env);
  return existsSync(folder) ? folder : undefined;
}

/** Returns the folder, or undefined after a message that says what is skipped. */
export async function ensureMonitoringCrds({ progress, env = process.env }) {
  const found = findMonitoringCrds(env) ?? (await fetchCrds(progress, env));
  if (found !== undefined) progress.cached("monitoring definitions", found);
  return found;
}

async function fetchCrds(progress, env) {
  const go = findOnPath("go", env);
  const args = ["mod", "download", "-json", MODULE];
  const what = "fetching the Prometheus operator's";
  const settings = { env: { ...env, GOFLAGS: "" }, cwd: env.HOME, timeoutMs: 120_000 };
  const result = go && (await progress.during("monitoring definitions", what, () => run(go, args, settings)));
  if (result?.code === 0) return publish(JSON.parse(result.stdout).Dir, folderIn(env));
  progress.note(
    `no definitions of the Prometheus operator: monitors and rules of the chart are not applied; install Go, and run setup again with access to a Go module proxy${result ? `\n${result.tail}` : ""}`,
  );
  return undefined;
}

function publish(module, target) {
  return fillFolder(target, (work) => {
    for (const kind of KINDS) {
      const file = `monitoring.coreos.com_${kind}.yaml`;
      cpSync(join(module, "example", "prometheus-operator-crd", file), join(work, file));
    }
    return work;
  });
}

function folderIn(env) {
  return join(cacheDir(env), "monitoring-crds", MODULE.slice(MODULE.indexOf("@") + 1));
}
