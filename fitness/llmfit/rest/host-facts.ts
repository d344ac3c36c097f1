/** Facts of a machine for llmfit's REST API, from a Host's status or a node's report. Pure. */
import type { Host } from "../../../src/api/host.ts";
import type { NodeReport } from "../../../src/api/node-report.ts";
import { ENGINES } from "../../../src/engines/registry.ts";
import { type MachineRead, machineOf } from "../../scoring/machine.ts";
import { hostSystem, llmfitRuntimeOf, type System, systemOfReport } from "../system.ts";
import type { RestFacts } from "./rest.ts";

/** llmfit's names in llmfit's order. */
const RUNTIMES = ["ollama", "mlx", "llamacpp", "docker_model_runner", "lmstudio", "vllm"] as const;
/** llmfit has one name for all programs for MLX models. */
const MLX_PROGRAMS = [
  ...ENGINES.filter(({ formats: [format] }) => format === "mlx").map(({ runtime }) => runtime),
  ...["mlx_lm.server", "mlx-lm"],
];
const OUR_NAMES: Readonly<Record<string, (typeof RUNTIMES)[number]>> = {
  ...Object.fromEntries(MLX_PROGRAMS.map((name) => [name, "mlx" as const])),
  "docker-model-runner": "docker_model_runner",
  "lm-studio": "lmstudio",
};
/** Rust's names of operating systems. */
const SYSTEMS: Readonly<Record<string, string>> = { darwin: "macos" };

export interface MachineFacts {
  readonly name: string;
  readonly system: System;
  /** Has the measured speeds. */
  readonly machine?: MachineRead;
  readonly runtimes: readonly { readonly name: string }[];
  readonly models: readonly { readonly source: string; readonly runtime?: string }[];
}

export function factsOfHost(host: Host): RestFacts {
  const { info: { os = "" } = {}, runtimes = [], models = [], installed = [] } = host.status ?? {};
  const { name } = host.metadata;
  const machine = machineOf(host);
  const system = hostSystem(host, machine);
  const facts = factsOfMachine({ name, system, machine, runtimes, models: [...models, ...installed] });
  return { ...facts, node: { name, os: SYSTEMS[os] ?? os } };
}

export function factsOfNode(name: string, report: NodeReport): RestFacts {
  const models = report.models.map((model) => ({ source: model.name, runtime: model.runtime }));
  return factsOfMachine({ name, system: systemOfReport(report), runtimes: report.runtimes, models });
}

/** Facts of any machine in the density state. */
export function factsOfMachine({ name, system, machine, runtimes, models }: MachineFacts): RestFacts {
  const measured = machine?.at === "known" ? machine.machine.measured : [];
  return {
    node: { name, os: system.backend === "Metal" ? "macos" : "linux" },
    system,
    runtimes: runtimeList(runtimes.map((runtime) => runtime.name)),
    installed: models.map(({ source, runtime = llmfitRuntimeOf(source) }) => {
      const tokensPerSecond = measured.find((one) => one.source === source)?.tokensPerSecond;
      return { name: installedName(source), runtime, tokensPerSecond };
    }),
  };
}

/** All of llmfit's runtimes, each with its presence on the machine. */
function runtimeList(found: readonly string[]): RestFacts["runtimes"] {
  const names = new Set(found.map((name) => OUR_NAMES[name] ?? name));
  return RUNTIMES.map((name) => ({ name, installed: names.has(name) }));
}

/** "hf://org/repo/Qwen3-8B-Q4_K_M.gguf" → "qwen3-8b-q4_k_m" */
function installedName(source: string): string {
  const path = source.slice(0, 2048).replace(/[?#@].*$/, "");
  const last = path.split("/").findLast((part) => part !== "") ?? path;
  return last.replace(/\.gguf$/i, "").toLowerCase();
}
