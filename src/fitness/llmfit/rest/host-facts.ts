/** What llmfit's REST API says of a machine: a Host by its status, a node by its report. Pure. */
import type { Host } from "../../../api/host.ts";
import type { NodeReport } from "../../../telemetry/node-report.ts";
import { machineOf } from "../../machine.ts";
import { systemOfReport } from "../../reported.ts";
import { hostSystem, runtimeOf } from "../system.ts";
import type { RestFacts } from "./rest.ts";

/** As llmfit names them, in its order. */
const RUNTIMES = ["ollama", "mlx", "llamacpp", "docker_model_runner", "lmstudio", "vllm"] as const;
const OUR_NAMES: Readonly<Record<string, (typeof RUNTIMES)[number]>> = {
  ...{ omlx: "mlx", "mlx_lm.server": "mlx", "mlx-lm": "mlx" },
  ...{ "docker-model-runner": "docker_model_runner", "lm-studio": "lmstudio" },
};
/** As Rust calls them. */
const SYSTEMS: Readonly<Record<string, string>> = { darwin: "macos" };

export function factsOfHost(host: Host): RestFacts {
  const { info = {}, runtimes = [], models = [], installed = [] } = host.status ?? {};
  const { os = "" } = info;
  return {
    node: { name: host.metadata.name, os: SYSTEMS[os] ?? os },
    system: hostSystem(host, machineOf(host)),
    runtimes: runtimeList(runtimes.map(({ name }) => name)),
    installed: [
      ...models.map(({ source, tokensPerSecond }) => ({
        ...{ name: installedName(source), runtime: runtimeOf(source), tokensPerSecond },
      })),
      ...installed.map(({ source, runtime }) => ({ name: installedName(source), runtime })),
    ],
  };
}

export function factsOfNode(name: string, report: NodeReport): RestFacts {
  const { runtimes, models } = report;
  return {
    node: { name, os: "linux" },
    system: systemOfReport(report),
    runtimes: runtimeList(runtimes.map((runtime) => runtime.name)),
    installed: models.map((model) => ({ name: installedName(model.name), runtime: model.runtime })),
  };
}

/** All that llmfit asks about, and whether the machine has them. */
export function runtimeList(found: readonly string[]): RestFacts["runtimes"] {
  const names = new Set(found.map((name) => OUR_NAMES[name] ?? name));
  return RUNTIMES.map((name) => ({ name, installed: names.has(name) }));
}

/** "hf://org/repo/Qwen3-8B-Q4_K_M.gguf" → "qwen3-8b-q4_k_m" */
export function installedName(source: string): string {
  const path = source.slice(0, 2048).replace(/[?#@].*$/, "");
  const last = path.split("/").findLast((part) => part !== "") ?? path;
  return last.replace(/\.gguf$/i, "").toLowerCase();
}
