/** Programs that run models, including those of others, and how they are recognized on a machine. */
import type { EngineTraces } from "./contract/description.ts";
import { ENGINES } from "./registry.ts";

export interface KnownTraces extends EngineTraces {
  /** Name under which hosts report the program. */
  readonly name: string;
}

export const TRACES: readonly KnownTraces[] = [
  ...ENGINES.map(({ runtime, traces }) => ({ name: runtime, ...traces })),
  { name: "mlx", programs: ["mlx_lm.server"], formula: "mlx-lm" },
  {
    name: "lmstudio",
    programs: ["lms"],
    processes: /^(lms|lm-studio|LM Studio)$/,
    modelFolders: [".lmstudio/models", ".cache/lm-studio/models"],
    app: {
      code: "LmStudioRuns",
      title: "LM Studio",
      severity: "warning",
      reason: "its models need memory that the agent counts as free for its own",
      command: /\/LM Studio(\.app)?\/|\/lmstudio\b|\blms server\b/i,
      finding: "LM Studio runs",
    },
  },
  { name: "ramalama", programs: ["ramalama"] },
];

/** Programs of engines that the agent can drive or that serve as pods. */
export const ENGINE_PROGRAMS: readonly string[] = ENGINES.flatMap(({ traces, host }) => [
  ...(traces?.programs ?? []),
  ...(host?.programs ?? []).map(({ name }) => name),
]);
