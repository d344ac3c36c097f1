/** Programs that runtime generic starts for services that name none: each in its own words, by the formats that it loads. */
import type { Mode } from "../../api/engine-settings.ts";
import type { ProgramSpec } from "../../api/fields/program.ts";
import type { ModelFormat } from "../../api/fields/shared.ts";
import type { InferenceServiceSpec } from "../../api/inference-service/index.ts";

export interface KnownProgram {
  /** Its file name; hosts report it under this name, and look it up in generic.roots. */
  readonly name: string;
  readonly formats: readonly ModelFormat[];
  readonly modes: readonly Mode[];
  readonly install: string;
  /** Its Python distribution, whose version is the program's. */
  readonly distribution?: string;
  readonly args: readonly string[];
  readonly env: readonly { readonly name: string; readonly value: string }[];
  readonly healthPath: string;
}

/** In order of preference. */
export const KNOWN_PROGRAMS: readonly KnownProgram[] = [
  {
    name: "mlx_lm.server",
    formats: ["mlx"],
    modes: ["chat"],
    install: "pip install mlx-lm, and allow mlx_lm.server in generic.roots of the agent's configuration",
    distribution: "mlx_lm",
    args: [
      ...["--model", "{{model}}", "--host", "{{address}}", "--port", "{{port}}"],
      ...["--decode-concurrency", "{{slots}}"],
    ],
    // It would download any other model that a request names.
    env: [{ name: "HF_HUB_OFFLINE", value: "1" }],
    healthPath: "/health",
  },
];

/** A service that names a program is left as it is; arguments and variables of one that does not are added. */
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

/** The known program that this is, which its host has to find; undefined where it has a path. */
export function knownName(program: Pick<ProgramSpec, "command"> | undefined): string | undefined {
  return KNOWN_PROGRAMS.find(({ name }) => name === program?.command[0])?.name;
}
