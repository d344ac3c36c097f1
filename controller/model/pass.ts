/** Wires the Model reconciler to the controller's ports. */
import type { ControllerPorts } from "../cache/ports.ts";
import { type ModelConfigInput, remoteConfig } from "./config.ts";
import { createModelReconciler, type ReconcileModel } from "./reconcile.ts";
import { createLook } from "./remote/look.ts";

/** For `createModelPass` of the controller. */
export function createModelPass(config: ModelConfigInput = {}): (ports: ControllerPorts) => ReconcileModel {
  const look = createLook(remoteConfig(config));
  return ({ client, caches, record, clock, log }) =>
    createModelReconciler({ client, models: caches.models, hosts: caches.hosts, look, record, clock, log });
}
