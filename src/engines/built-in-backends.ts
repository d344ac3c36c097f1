/**
 * Our own runtimes as BackendRuntimes, so that they are listed and referenced like those of users. Each repeats what its runtime
 * does anyway, so that naming one renders the same pods and processes as spec.runtime. Pure.
 */
import {
  type BackendRuntime,
  type BackendRuntimeSpec,
  CONFIG_DEFAULT,
  CONFIG_SPECULATIVE,
} from "../api/backend-runtime.ts";
import { modeSchema } from "../api/engine-settings.ts";
import { API_VERSION, LABEL_BUILT_IN } from "../api/group.ts";
import { roleSetting } from "../api/inference-service/model-refs.ts";
import type { EngineDescription } from "./contract/description.ts";
import type { PodRuntime } from "./contract/pod.ts";
import { KNOWN_PROGRAMS, type KnownProgram } from "./generic/known-programs.ts";
import { ENGINES } from "./registry.ts";

const ANNOTATION_DESCRIPTION = "kubernetes.io/description";

/** In the order of the registry. */
export function builtInBackends(): readonly BackendRuntime[] {
  const engines = ENGINES.filter(({ runtime }) => runtime !== "generic");
  return [...engines.map(engineBackend), ...KNOWN_PROGRAMS.map(programBackend)];
}

function builtIn(name: string, description: string, spec: BackendRuntimeSpec): BackendRuntime {
  const annotations = { [ANNOTATION_DESCRIPTION]: description };
  const metadata = { name, labels: { [LABEL_BUILT_IN]: "true" }, annotations };
  return { apiVersion: API_VERSION, kind: "BackendRuntime", metadata, spec };
}

/**
 * Without an image: that depends on the accelerator and on the images and the registry of the controller's configuration, and a
 * new pinned image does not change the object.
 */
function engineBackend(entry: EngineDescription): BackendRuntime {
  const { runtime, formats, modes = modeSchema.options, accelerators, apiPaths, pod } = entry;
  return builtIn(runtime, descriptionOf(entry), {
    engine: runtime,
    formats: [...formats],
    modes: [...modes],
    accelerators: [...accelerators],
    apiPaths: [...apiPaths],
    port: pod?.port,
    probes: pod?.healthPath === undefined ? undefined : probesAt(pod.healthPath),
    gauges: gaugesOf(pod),
    recommendedConfigs: configsOf(entry),
  });
}

/** Both add nothing: the settings of drafting follow from the draft model of the service. */
function configsOf({ host, pod }: EngineDescription): BackendRuntimeSpec["recommendedConfigs"] {
  const honored = [...(host?.settings ?? []), ...(pod?.settings ?? [])];
  const drafts = honored.includes(roleSetting("draft")) ? [{ name: CONFIG_SPECULATIVE }] : [];
  return [{ name: CONFIG_DEFAULT }, ...drafts];
}

function descriptionOf({ host, pod }: EngineDescription): string {
  const images = Object.entries(pod?.images ?? {}).map(([accelerator, image]) => `${accelerator} ${image}`);
  const inPods =
    images.length === 0 ? "in pods with an image of the service" : `in pods: ${images.join(", ")}`;
  const parts = [host && `on hosts: ${host.install}`, pod && inPods].filter((part) => part !== undefined);
  return `Runs ${parts.join("; ")}`;
}

function probesAt(path: string): BackendRuntimeSpec["probes"] {
  const probe = { httpGet: { path } };
  return { startup: probe, liveness: probe, readiness: probe };
}

/** The first gauge counts running requests, and the others queued ones. */
function gaugesOf(pod: PodRuntime | undefined): BackendRuntimeSpec["gauges"] {
  const [running, ...queued] = pod?.metrics?.inFlight ?? [];
  return running === undefined ? undefined : { path: pod?.metrics?.path ?? "", running: [running], queued };
}

function programBackend(program: KnownProgram): BackendRuntime {
  const { name, backend, formats, modes, installCommand: install, apiPaths, args, env, healthPath } = program;
  return builtIn(backend, `Runs on hosts that allow it in backends of their configuration: ${install}`, {
    engine: "generic",
    formats: [...formats],
    modes: [...modes],
    accelerators: ["metal"],
    apiPaths: [...apiPaths],
    probes: { liveness: { httpGet: { path: healthPath } } },
    recommendedConfigs: [{ name: CONFIG_DEFAULT }],
    host: { command: [name], args: [...args], env: env.map((variable) => ({ ...variable })), install },
  });
}
