/** Objects as users apply them, as small as they may be. */
import { API_VERSION } from "../../src/api/group.ts";
import { ONE_THREAD } from "./agent.ts";

/** A Model on Metal. */
export function model(name: string, source: string, spec: object = {}, namespace = "default"): object {
  return {
    apiVersion: API_VERSION,
    kind: "Model",
    metadata: { name, namespace },
    spec: { source, hardware: { accelerator: "metal" }, ...spec },
  };
}

/** A service of the Model of its name, on one host. */
export function service(name: string, host: string, spec: object = {}, namespace = "default"): object {
  return serviceAnywhere(name, { placement: { hosts: [host] }, ...spec }, namespace);
}

/** A service of the Model of its name. */
export function serviceAnywhere(name: string, spec: object = {}, namespace = "default"): object {
  return {
    apiVersion: API_VERSION,
    kind: "InferenceService",
    metadata: { name, namespace },
    spec: {
      modelRef: name,
      contextSize: 256,
      parallelSlots: 1,
      promptCacheMiB: 0,
      extraArgs: ONE_THREAD,
      ...spec,
    },
  };
}
