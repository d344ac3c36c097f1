/** Programs that runtime generic starts for services that name none, with their arguments and formats. */
import type { Mode } from "../../api/engine-settings.ts";
import type { ProgramSpec } from "../../api/fields/program.ts";
import type { ModelFormat } from "../../api/fields/shared.ts";
import type { InferenceServiceSpec } from "../../api/inference-service/index.ts";

export interface KnownProgram {
  /** File name, under which hosts report the program and find it in generic.roots. */
  readonly name: string;
  /** Name of its built-in BackendRuntime. */
  readonly backend: string;
  readonly formats: readonly ModelFormat[];
  readonly modes: readonly Mode[];
  readonly install: string;
  /** Command that installs the program, without what hosts have to allow. */
  readonly installCommand: string;
  /** Python distribution that has the version of the program. */
  readonly distribution?: string;
  readonly args: readonly string[];
  readonly env: readonly { readonly name: string; readonly value: string }[];
  readonly healthPath: string;
  readonly apiPaths: readonly string[];
}

/** In order of preference. */
export const KNOWN_PROGRAMS: readonly KnownProgram[] = [
  {
    name: "mlx_lm.server",
    backend: "mlx-lm",
    formats: ["mlx"],
    modes: ["chat"],
    installCommand: "pip install mlx-lm",
    install: "pip install mlx-lm, and allow mlx_lm.server in generic.roots of the agent's configuration",
    distribution: "mlx_lm",
    args: [
      ...["--model", "{{model}}", "--host", "{{address}}", "--port", "{{port}}"],
      ...["--decode-concurrency", "{{slots}}"],
    ],
    // Without it, the program would download any other model that a request names.
    env: [{ name: "HF_HUB_OFFLINE", value: "1" }],
    healthPath: "/health",
    apiPaths: ["/v1/chat/completions", "/v1/completions", "/v1/models"],
  },
];

/** Adds the known program for the format. A service that names a program is not changed. */
export function withKnownProgram(spec: InferenceServiceSpec, format: ModelFormat): InferenceServiceSpec {
  const { mode = "chat" } = spec;
  const known = KNOWN_PROGRAMS.find(({ formats, modes }) => formats.includes(format) && modes.includes(mode));
  if (known === undefined || (spec.command ?? []).length > 0) return spec;
  const { name, args, env, healthPath } = known;
  const { args: moreArgs = [], env: moreEnv = [], probeOverrides } = spec;
  const health = { httpGet: { path: healthPath } };
  return {
    ...spec,
    command: [name],
    args: [...args, ...moreArgs],
    env: [...env.filter((one) => !moreEnv.some((other) => other.name === one.name)), ...moreEnv],
    probeOverrides: { ...probeOverrides, liveness: { ...health, ...probeOverrides?.liveness } },
  };
}

/** Name of a known program, which its host must find; undefined for a program with a path or of a BackendRuntime. */
export function knownName(program: Pick<ProgramSpec, "command" | "backend"> | undefined): string | undefined {
  if (program?.backend !== undefined) return undefined;
  return KNOWN_PROGRAMS.find(({ name }) => name === program?.command[0])?.name;
}
