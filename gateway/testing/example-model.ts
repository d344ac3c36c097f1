/** A service with one slot per replica, for tests. */
import type { ServedModel } from "../models/served-model.ts";

export function exampleModel(addresses: readonly string[], given: Partial<ServedModel> = {}): ServedModel {
  return {
    key: "apps/chat",
    namespace: "apps",
    name: "chat",
    uid: "1",
    createdAt: "2026-01-01T00:00:00Z",
    ownedBy: "apps",
    mode: "chat",
    adapters: new Set(),
    contextLength: undefined,
    slots: 1,
    paths: undefined,
    runtime: "llamacpp",
    endpoints: addresses.map((address) => ({ address, ip: address, port: 1, host: address })),
    fingerprints: [],
    state: addresses.length > 0 ? "ready" : "starting",
    reason: undefined,
    isAbsentBySpec: false,
    prefersPrefix: false,
    isIdleCapable: false,
    tlsName: undefined,
    connections: "single",
    stopsAfterMs: 0,
    needsClientCertificate: false,
    engineKey: undefined,
    ...given,
  };
}
