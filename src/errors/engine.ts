/** Engines: finding, starting, probing, ending them. */
import type { ErrorEntry } from "./entry.ts";

export const engineErrors = {
  RuntimeNotInstalled: {
    what: "The engine that the service needs is not installed on the host, or not where the agent looks.",
    do: "install it on the host, or name its path in the agent's configuration",
    command: "brew install llama.cpp",
  },
  RuntimeNotExecutable: {
    what: "The engine's program was found, but it cannot be run.",
    do: "make it executable for the user the agent runs as, or name another path in the agent's configuration",
  },
  RuntimeTooOld: {
    what: "The installed engine is too old for what Metalbridge needs from it.",
    do: "upgrade the engine on the host",
    command: "brew upgrade llama.cpp",
  },
  RuntimeBroken: {
    what: "The engine's program does not answer --version and --help.",
    do: "run it by hand on the host to see why, and reinstall it",
    command: "llama-server --version",
  },
  RuntimeMismatch: {
    what: "No runtime serves this model format on this accelerator.",
    do: "choose another format or accelerator, or set spec.runtime",
  },
  SettingNotSupported: {
    what: "A setting of the service cannot be honoured by the engine version on the host.",
    do: "remove the setting, or upgrade the engine on the host: another version is tried by itself",
  },
  ExtraArgRefused: {
    what: "An entry of spec.extraArgs is not allowed: it reads or writes files, opens ports, or has a typed field.",
    do: "remove it; use the typed field where there is one",
  },
  CacheTypeMismatch: {
    what: "A quantised KV cache type needs attention heads whose length is a multiple of its block size.",
    do: "set cacheTypeK and cacheTypeV to f16",
  },
  EngineStartFailed: {
    what: "The engine's process could not be started.",
    do: "see the message; free memory, processes or disk on the host",
  },
  EngineStillRunning: {
    what: "An earlier engine of the same replica still has living processes.",
    do: "nothing: the agent ends them first; if it cannot, end them by hand",
  },
  EngineOutOfMemory: {
    what: "The engine ran out of memory, or the system killed it while the host's memory was short.",
    do: "lower contextSize or parallelSlots, use a smaller quantization, or place the service on a larger host",
  },
  EnginePortTaken: {
    what: "The engine's port was taken by another process.",
    do: "nothing: the agent chooses another port",
  },
  EngineFlagRefused: {
    what: "The engine refused one of its command-line arguments.",
    do: "remove the argument from extraArgs, or upgrade the engine",
  },
  EngineBadModel: {
    what: "The engine could not load the model file.",
    do: "check that the file is a complete model of a supported architecture, or upgrade the engine for newer ones; another engine, a file corrected in its place on the host, and a changed source with refreshPolicy OnChange are tried by themselves; else set spec.sha256 of the Model to the corrected file's",
  },
  EngineModelMissing: {
    what: "The engine did not find a file it needs.",
    do: "check the model's source; the agent fetches it again",
  },
  EngineSettingsRefused: {
    what: "The engine refused a combination of settings for this model.",
    do: "see the message and change the settings it names",
  },
  EngineCrashed: {
    what: "The engine ended by itself.",
    do: "see the log tail in the replica's status.lastExit; the agent starts it again",
  },
  EngineKilled: {
    what: "Somebody other than the agent killed the engine.",
    do: "nothing: the agent starts it again; if it was the system, the host is short of memory",
  },
  PortsExhausted: {
    what: "All ports of the agent's range are taken.",
    do: "widen the port range in the agent's configuration, or free ports",
  },
} as const satisfies Record<string, ErrorEntry>;
