/** Ollama: a shared server for models of its library on hosts, and a server of one model in pods. */
import { HOST_ENGINE_INSTALLS } from "../../api/fields/runtimes.ts";
import type { EngineDescription } from "../contract/description.ts";
import { ollamaClaims } from "./claims.ts";
import { ollamaPod } from "./pod.ts";
import { OLLAMA_ROUTES } from "./routes.ts";
import { OLLAMA_SETTINGS } from "./settings.ts";

export const ollama: EngineDescription = {
  runtime: "ollama",
  formats: ["ollama", "gguf"],
  accelerators: ["metal", "cuda", "rocm", "cpu"],
  apiPaths: OLLAMA_ROUTES.map(({ path }) => path),
  isSharedDaemon: true,
  modes: ["chat", "embedding"],
  host: {
    install: HOST_ENGINE_INSTALLS.ollama,
    settings: OLLAMA_SETTINGS,
    claims: ollamaClaims,
  },
  pod: ollamaPod,
  traces: {
    programs: ["ollama"],
    processes: /^ollama$/,
    modelFolders: [".ollama/models"],
    formula: "ollama",
    units: "ollama*",
    app: {
      code: "OllamaAppRuns",
      title: "the Ollama app",
      severity: "error",
      platforms: ["darwin"],
      reason: "if its port is in use, the app terminates every other `ollama serve`, including the agent's",
      command: /\/Ollama\.app\//,
      finding: "the Ollama app runs",
    },
  },
};
