/** oMLX: a shared server for MLX models, on Macs. */
import { HOST_ENGINE_INSTALLS } from "../../api/fields/runtimes.ts";
import type { EngineDescription } from "../contract/description.ts";
import { omlxClaims } from "./claims.ts";
import { OMLX_ROUTES } from "./routes.ts";
import { OMLX_ARGUMENTS, OMLX_SETTINGS } from "./settings.ts";

export const omlx: EngineDescription = {
  runtime: "omlx",
  formats: ["mlx"],
  accelerators: ["metal"],
  apiPaths: OMLX_ROUTES.map(({ path }) => path),
  isSharedDaemon: true,
  asksGateForKey: true,
  arguments: OMLX_ARGUMENTS,
  host: {
    install: HOST_ENGINE_INSTALLS.omlx,
    settings: OMLX_SETTINGS,
    claims: omlxClaims,
    benchmarkTool: "mlx_lm.benchmark",
    knownBad: [
      {
        below: "0.3.11",
        why: "older versions read --max-process-memory where current ones read --memory-guard (jundot/omlx#1442)",
      },
    ],
  },
  traces: {
    programs: ["omlx", "omlx-server"],
    processes: /^omlx$/,
    modelFolders: [".omlx/models"],
    formula: "omlx",
  },
};
