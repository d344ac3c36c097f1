import { expect, test } from "vitest";
import type { InferenceReplica } from "../../../src/api/inference-replica.ts";
import {
  type InferenceService,
  inferenceServiceSpecSchema,
} from "../../../src/api/inference-service/index.ts";
import type { EndpointSlice } from "../../../src/kube/objects.ts";
import { stepsOfRelaySlice } from "./relay-slice.ts";

const service: InferenceService = {
  metadata: { name: "chat", namespace: "apps", uid: "u1" },
  spec: inferenceServiceSpecSchema.parse({ modelRef: "m" }),
};
const relays = { addresses: ["10.0.0.7", "10.0.0.8"], port: 20_007 };
const sealedReplica = {
  metadata: { name: "chat-0-a" },
  spec: { template: { transport: "Sealed" } },
} as unknown as InferenceReplica;
const directReplica = {
  metadata: { name: "chat-0-a" },
  spec: { template: {} },
} as unknown as InferenceReplica;

function replicaSlice(...ready: boolean[]): EndpointSlice {
  const endpoints = ready.map((one) => ({ addresses: ["192.0.2.1"], conditions: { ready: one } }));
  return { metadata: { name: "chat-0-a" }, addressType: "IPv4", endpoints };
}

/** As the API server stores what an earlier pass has created. */
function stored(over: Partial<EndpointSlice> = {}): EndpointSlice {
  const input = {
    service,
    replicas: [],
    slices: [],
    relaySlices: [],
    kubeServices: [],
    sealing: { ...sealing, relays },
  };
  const [created] = stepsOfRelaySlice(input);
  if (created?.do !== "create" || created.what !== "relaySlices") throw new Error("not created");
  return { ...created.object, ...over };
}

const sealing = { byDefault: "Direct", clients: [] } as const;
const atRelays = relays.addresses.map((address) => ({ addresses: [address], conditions: { ready: true } }));

function plan(input: Partial<Parameters<typeof stepsOfRelaySlice>[0]>) {
  const nothing = {
    service,
    replicas: [],
    slices: [],
    relaySlices: [],
    kubeServices: [],
    sealing: { ...sealing, relays },
  };
  return stepsOfRelaySlice({ ...nothing, ...input }).map((step) => {
    if (step.do === "create" && step.what === "relaySlices") return ["create", step.object.endpoints?.length];
    if (step.do === "patch")
      return [...step.operations.filter(({ op }) => op !== "test").map(({ path }) => path)];
    return [step.do, step.because];
  });
}

test.each<[string, Parameters<typeof plan>[0], readonly unknown[]]>([
  ["no sealed replica is ready yet", {}, [["create", 0]]],
  ["a sealed replica is ready", { replicas: [sealedReplica], slices: [replicaSlice(true)] }, [["create", 2]]],
  [
    "only a direct replica is ready",
    { replicas: [directReplica], slices: [replicaSlice(true)] },
    [["create", 0]],
  ],
  [
    "its only replica was withdrawn",
    {
      replicas: [sealedReplica],
      slices: [replicaSlice(false)],
      relaySlices: [stored({ endpoints: atRelays })],
    },
    [["/endpoints"]],
  ],
  [
    "nothing differs",
    {
      replicas: [sealedReplica],
      slices: [replicaSlice(true)],
      relaySlices: [stored({ endpoints: atRelays })],
    },
    [],
  ],
  [
    "the port was taken by an older service",
    { relaySlices: [stored({ ports: [{ name: "http", port: 20_001 }] })] },
    [["/ports"]],
  ],
  [
    "the relays moved to IPv6",
    {
      replicas: [sealedReplica],
      slices: [replicaSlice(true)],
      relaySlices: [stored()],
      sealing: { ...sealing, relays: { addresses: ["fd00::7"], port: 20_007 } },
    },
    [["remove", "the relays' address family changed"]],
  ],
  ["two slices", { relaySlices: [stored(), stored()] }, [["remove", "no relay serves it"]]],
  ["no relays any more", { relaySlices: [stored()], sealing }, [["remove", "no relay serves it"]]],
])("%s", (_, input, expected) => {
  expect(plan(input)).toEqual(expected);
});

test("the family is that of the Service where relays have it, and stays while no relay is ready", () => {
  const both = { ...sealing, relays: { addresses: ["2001:db8::7", "203.0.113.7"], port: 20_007 } };
  const ready = { replicas: [sealedReplica], slices: [replicaSlice(true)] };
  const nothing = { service, relaySlices: [], kubeServices: [] };
  const of = (input: Partial<Parameters<typeof stepsOfRelaySlice>[0]>) =>
    stepsOfRelaySlice({ ...nothing, ...ready, sealing: both, ...input }).map((step) =>
      step.do === "create" && step.what === "relaySlices" ? step.object.addressType : step.do,
    );
  expect(of({})).toEqual(["IPv4"]);
  expect(of({ kubeServices: [{ metadata: { name: "chat" }, spec: { ipFamilies: ["IPv6"] } }] })).toEqual([
    "IPv6",
  ]);
  const none = { ...sealing, relays: { addresses: [], port: 20_007 } };
  expect(of({ sealing: none, relaySlices: [stored({ addressType: "IPv6" })] })).toEqual([]);
});

test("kube-proxy reads the slice, and gateways do not take it for a replica", () => {
  expect(stored().metadata.labels).toEqual({
    "app.kubernetes.io/managed-by": "metalbridge",
    "endpointslice.kubernetes.io/managed-by": "controller.metalbridge.dev",
    "kubernetes.io/service-name": "chat",
    "metalbridge.dev/relayed-service": "chat",
    "metalbridge.dev/service-uid": "u1",
  });
});
