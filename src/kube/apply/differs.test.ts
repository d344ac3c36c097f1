import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { ENDPOINT_SLICES, SERVICES } from "../kinds.ts";
import type { EndpointSlice, Service } from "../objects.ts";
import type { Kind, KubeObject } from "../types.ts";
import { bodyOfApply } from "./body.ts";
import { applyDiffers, isEqual } from "./differs.ts";
import { ownedFieldsOf } from "./owned-fields.ts";

interface Any extends KubeObject {
  spec?: Record<string, unknown>;
  status?: Record<string, unknown>;
}
const REPLICAS: Kind<Any> = {
  group: "metalbridge.dev",
  version: "v1alpha1",
  plural: "inferencereplicas",
  kind: "InferenceReplica",
  namespaced: true,
};
const AGENT = { manager: "metalbridge-agent", subresource: "status" as const };

function managed(
  manager: string,
  fieldsV1: object,
  subresource?: string,
  apiVersion = "metalbridge.dev/v1alpha1",
) {
  return {
    manager,
    operation: "Apply",
    apiVersion,
    fieldsType: "FieldsV1",
    fieldsV1,
    subresource: subresource ? subresource : undefined,
  };
}

const condition = (type: string, status: string, more = {}) => ({
  type,
  status,
  reason: "R",
  message: "m",
  ...more,
});
const ownCondition = { ".": {}, "f:type": {}, "f:status": {}, "f:reason": {}, "f:message": {} };

function replica(status: Record<string, unknown>, fields: object): Any {
  return {
    apiVersion: "metalbridge.dev/v1alpha1",
    kind: "InferenceReplica",
    metadata: {
      name: "r",
      namespace: "n",
      uid: "u1",
      managedFields: [managed("metalbridge-agent", fields, "status")],
    },
    status,
  };
}

const READY = {
  phase: "Ready",
  port: 21_000,
  conditions: [condition("HostReachable", "True"), condition("Ready", "True")],
  memory: { claimBytes: 5 },
};
const READY_FIELDS = {
  "f:status": {
    "f:phase": {},
    "f:port": {},
    "f:conditions": { 'k:{"type":"Ready"}': ownCondition },
    "f:memory": { "f:claimBytes": {} },
  },
};
const WANTED = {
  phase: "Ready",
  port: 21_000,
  conditions: [condition("Ready", "True")],
  memory: { claimBytes: 5 },
};

function differs(status: Record<string, unknown>, current = replica(READY, READY_FIELDS)): boolean {
  const body = bodyOfApply(
    REPLICAS,
    { metadata: { name: "r", namespace: "n" }, status },
    { subresource: "status", uid: "u1" },
  );
  return applyDiffers(body, current, AGENT);
}

describe("an apply that changes nothing", () => {
  it("is seen, beside another manager's conditions and whatever is absent, null or empty", () => {
    expect(differs(WANTED)).toBe(false);
    expect(differs({ ...WANTED, progress: undefined, lastExit: null, hosts: [], info: {} })).toBe(false);
  });

  it("is seen for a status written to an object whose other subresources have other managers", () => {
    const current = replica(READY, READY_FIELDS);
    const others = [
      managed("metalbridge-agent", { "f:metadata": { "f:finalizers": { 'v:"x"': {} } } }),
      managed("metalbridge-controller", { "f:status": { "f:phase": {} } }, "status"),
    ];
    current.metadata.managedFields = [...others, ...(current.metadata.managedFields ?? [])];
    expect(differs(WANTED, current)).toBe(false);
  });
});

describe("an apply that changes something", () => {
  it.each([
    ["a value", { ...WANTED, phase: "Draining" }],
    ["a value inside an entry", { ...WANTED, conditions: [condition("Ready", "False")] }],
    ["a field more", { ...WANTED, pid: 7 }],
    ["a field less", { phase: "Ready", port: 21_000, conditions: WANTED.conditions }],
    [
      "a field less inside an entry",
      { ...WANTED, conditions: [{ type: "Ready", status: "True", reason: "R" }] },
    ],
    [
      "an entry more",
      { ...WANTED, conditions: [...WANTED.conditions, condition("MemoryPressure", "False")] },
    ],
    [
      "another's entry",
      { ...WANTED, conditions: [...WANTED.conditions, condition("HostReachable", "True")] },
    ],
    ["no entry", { ...WANTED, conditions: [] }],
    ["another type", { ...WANTED, port: "21000" }],
    ["a list in place of a record", { ...WANTED, memory: [5] }],
    ["nothing at all", {}],
  ])("is seen: %s", (_what, status) => {
    expect(differs(status)).toBe(true);
  });

  it("is seen when we own nothing yet, own it by update only, or owned it in another version", () => {
    const current = replica(READY, READY_FIELDS);
    for (const managedFields of [
      undefined,
      [],
      [managed("someone", READY_FIELDS, "status")],
      [managed("metalbridge-agent", READY_FIELDS)],
      [managed("metalbridge-agent", READY_FIELDS, "status", "metalbridge.dev/v1alpha0")],
      [{ ...managed("metalbridge-agent", READY_FIELDS, "status"), operation: "Update" }],
      [{ ...managed("metalbridge-agent", READY_FIELDS, "status"), fieldsV1: "?" }],
    ]) {
      const { managedFields: _old, ...metadata } = current.metadata;
      const changed = {
        ...current,
        metadata: managedFields === undefined ? metadata : { ...metadata, managedFields },
      };
      expect(differs(WANTED, changed)).toBe(true);
    }
  });

  it("is seen when the object is another one of the same name", () => {
    const current = replica(READY, READY_FIELDS);
    current.metadata.uid = "u2";
    expect(differs(WANTED, current)).toBe(true);
  });

  it("is seen when another writer changed what we own", () => {
    expect(differs(WANTED, replica({ ...READY, port: 22_000 }, READY_FIELDS))).toBe(true);
    expect(differs(WANTED, replica({ ...READY, conditions: [] }, READY_FIELDS))).toBe(true);
    expect(differs(WANTED, replica({ ...READY, conditions: null }, READY_FIELDS))).toBe(true);
  });
});

describe("objects of Kubernetes itself", () => {
  const wanted: Service = {
    metadata: { name: "s", namespace: "n", labels: { app: "x" }, finalizers: ["a/b"] },
    spec: { selector: { app: "x" }, ports: [{ name: "http", port: 8080 }] },
  };
  const fields = {
    "f:metadata": { "f:labels": { "f:app": {} }, "f:finalizers": { 'v:"a/b"': {} } },
    "f:spec": {
      "f:selector": {},
      "f:ports": { 'k:{"port":8080,"protocol":"TCP"}': { ".": {}, "f:name": {}, "f:port": {} } },
    },
  };
  const current: Service = {
    apiVersion: "v1",
    kind: "Service",
    metadata: { ...wanted.metadata, uid: "u", managedFields: [managed("m", fields, undefined, "v1")] },
    spec: {
      ...wanted.spec,
      type: "ClusterIP",
      clusterIP: "10.0.0.5",
      ports: [{ name: "http", port: 8080, protocol: "TCP", targetPort: 8080 }],
    },
  };
  const check = (object: Service) =>
    applyDiffers(bodyOfApply(SERVICES, object, {}), current, { manager: "m" });

  it("may have defaults everywhere, in the key of a list entry too", () => {
    expect(check(wanted)).toBe(false);
    expect(check({ ...wanted, status: { loadBalancer: {} } })).toBe(false);
  });

  it("are compared as a whole where they are one value", () => {
    expect(check({ ...wanted, spec: { ...wanted.spec, selector: { app: "x", tier: "y" } } })).toBe(true);
    expect(check({ ...wanted, spec: { ...wanted.spec, selector: {} } })).toBe(true);
  });

  it("keep members of a set apart from the whole", () => {
    expect(check({ ...wanted, metadata: { ...wanted.metadata, finalizers: ["a/b", "c/d"] } })).toBe(true);
    expect(check({ ...wanted, metadata: { ...wanted.metadata, finalizers: [] } })).toBe(true);
  });

  it("send an emptied list of endpoints, once", () => {
    const slice: EndpointSlice = {
      metadata: { name: "s", namespace: "n" },
      addressType: "IPv4",
      endpoints: [],
      ports: [],
    };
    const body = bodyOfApply(ENDPOINT_SLICES, slice, {});
    expect(body).toMatchObject({ endpoints: [], ports: [] });
    const owned = { "f:addressType": {}, "f:endpoints": {}, "f:ports": {} };
    const managedFields = [managed("m", owned, undefined, "discovery.k8s.io/v1")];
    const empty: EndpointSlice = {
      ...slice,
      metadata: { ...slice.metadata, managedFields },
      endpoints: null,
      ports: null,
    };
    expect(applyDiffers(body, empty, { manager: "m" })).toBe(false);
    const filled = { ...empty, endpoints: [{ addresses: ["10.0.0.1"] }] };
    expect(applyDiffers(body, filled, { manager: "m" })).toBe(true);
  });
});

describe("with any input", () => {
  it("nothing throws, and what cannot be understood is sent", () => {
    fc.assert(
      fc.property(fc.object(), fc.jsonValue(), fc.array(fc.jsonValue()), (wanted, status, managedFields) => {
        const current = { metadata: { name: "r", uid: "u1", managedFields }, status } as Any;
        expect(differs(wanted as Record<string, unknown>, current)).toBe(true);
        expect(ownedFieldsOf(managedFields, AGENT, "v1")).toBeUndefined();
      }),
    );
  });

  it("equality is that of JSON, without regard to null", () => {
    fc.assert(
      fc.property(fc.jsonValue(), fc.jsonValue(), (left, right) => {
        expect(isEqual(left, structuredClone(left))).toBe(true);
        expect(isEqual(left, right)).toBe(isEqual(right, left));
      }),
    );
    expect(isEqual({ a: null }, {})).toBe(true);
    expect(isEqual({ a: 0 }, {})).toBe(false);
    expect(isEqual([], {})).toBe(false);
  });
});
