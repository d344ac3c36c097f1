/** Engines: finding, starting, probing, stopping them. */
import { HOST_ENGINE_INSTALLS } from "../fields/runtimes.ts";
import type { ErrorEntry } from "./entry.ts";

const INSTALLS = Object.entries(HOST_ENGINE_INSTALLS)
  .map((install) => install.join(": "))
  .join("; ");

export const engineErrors = {
  RuntimeNotInstalled: {
    what: "The engine that the service needs is not installed on the host, or not where the agent searches.",
    do: `install it on the host (${INSTALLS}), or set its path in the agent's configuration`,
  },
  RuntimeNotExecutable: {
    what: "The agent found the engine's program but cannot execute it.",
    do: "make it executable for the agent's user, or set another path in the agent's configuration",
  },
  RuntimeTooOld: {
    what: "The installed engine is older than the oldest version that Metalbridge supports.",
    do: "upgrade the engine on the host",
    command: "brew upgrade llama.cpp",
  },
  RuntimeBroken: {
    what: "The engine's program fails with --version or --help.",
    do: "run it manually on the host to see why, then reinstall it",
    command: "llama-server --version",
  },
  RuntimeMismatch: {
    what: "No runtime serves this model format on this accelerator.",
    do: "choose another format or accelerator, or set spec.runtime; an ollama:// source runs outside Ollama with spec.format: gguf",
  },
  SettingNotSupported: {
    what: "The engine version on the host does not support a setting of the service.",
    do: "remove the setting, or upgrade the engine on the host; the agent retries after the version has changed",
  },
  SettingUnavailable: {
    what: "This host cannot provide a setting of the service now: a folder does not exist, or its shared server has the same weights loaded with different settings.",
    do: "create the folder, or give both services the same settings or different hosts; rechecked every few seconds",
  },
  ExtraArgRefused: {
    what: "An entry of spec.extraArgs is not allowed: it reads or writes files, opens ports, or contradicts the field for the same setting.",
    do: "remove it; use the typed field if there is one",
  },
  CommandInvalid: {
    what: "The command, environment or probes of runtime generic are invalid.",
    do: "correct what the message names: absolute paths, known placeholders, {{port}} somewhere in command, args or env",
  },
  ProgramNotAllowed: {
    what: "This host does not allow the program for services.",
    do: "add it, or its folder, to generic.roots in the agent's configuration and restart the agent, or name a program that is allowed",
  },
  CacheTypeMismatch: {
    what: "The length of the model's attention heads is not a multiple of the block size of the quantized KV cache type.",
    do: "set cacheTypeK and cacheTypeV to f16",
  },
  EngineStartFailed: {
    what: "The engine process could not be started.",
    do: "read the message; free memory, processes or disk on the host; retried automatically, after up to 6 minutes",
  },
  EngineStillRunning: {
    what: "An earlier engine of the same replica still has running processes.",
    do: "wait: the agent stops them before it starts the engine; if they survive, kill them manually",
  },
  EngineOutOfMemory: {
    what: "The engine ran out of memory, or the OS killed it under memory pressure.",
    do: "lower contextSize, parallelSlots or promptCacheMiB, use a smaller model or quantization, or schedule the service on a larger host",
  },
  EnginePortTaken: {
    what: "Another process uses the engine's port.",
    do: "nothing to do: the agent retries on another port",
  },
  GateUnavailable: {
    what: "The gate in front of the engine does not serve the replica.",
    do: "nothing to do: the agent retries; if the problem persists, read gate/*/log in the agent's state folder",
  },
  GateNeeded: {
    what: "spec.endpoint.gate is Never, but this engine cannot be served without the gate.",
    do: "remove spec.endpoint.gate, or set it to Auto",
  },
  CertificateInvalid: {
    what: "A certificate in a Secret of spec.endpoint.tls cannot be used: it is unreadable, expired or too large, or does not match the key.",
    do: "put a valid certificate chain in tls.crt and its unencrypted key in tls.key, or CA certificates in ca.crt of clientCASecretRef, all PEM; the agent reads the Secret again within 5 s",
    command: "kubectl create secret tls NAME -n NAMESPACE --cert=tls.crt --key=tls.key",
  },
  TransportKeyInvalid: {
    what: "A file with the certificate and key of the host for sealed services is damaged.",
    do: "restore the file that the message names; or delete it, and the agent creates a new key within a minute and publishes its fingerprint in the status of the Host",
  },
  EngineFlagRefused: {
    what: "The engine rejected one of its command-line arguments.",
    do: "remove the argument from extraArgs, or upgrade the engine",
  },
  EngineBadModel: {
    what: "The engine could not load the model file.",
    do: "check that the file is complete and its architecture supported, or upgrade the engine; the agent retries automatically when the engine's version or the file on the host changes, and with refreshPolicy OnChange a corrected file at the source is a new revision; otherwise set the Model's spec.sha256 to the corrected file's",
  },
  EngineModelMissing: {
    what: "The engine did not find a required file.",
    do: "wait: the agent fetches it again; if this repeats, check the Model's source",
  },
  EngineSettingsRefused: {
    what: "The engine rejected a combination of settings for this model.",
    do: "change the settings that the message names",
  },
  EngineCrashed: {
    what: "The engine process exited unexpectedly.",
    do: "read the log tail in the replica's status.lastExit; the agent restarts the engine automatically",
  },
  EngineKilled: {
    what: "The engine was killed by a signal that the agent did not send: by a user, or by the OS.",
    do: "nothing to do: the agent restarts it automatically; if the OS killed it, the host is short of memory",
  },
  PortsExhausted: {
    what: "All ports in the agent's range are in use.",
    do: "widen the port range in the agent's configuration, or free ports",
  },
} as const satisfies Record<string, ErrorEntry>;
