/** Settings of a service that exclude a flavor, and what its limits request. */
import { expect, test } from "vitest";
import type { Flavor } from "../../api/flavors.ts";
import { inferenceServiceSchema } from "../../api/inference-service/index.ts";
import { onHostsOf } from "./apply.ts";
import { contradictionOf } from "./contradictions.ts";
import { flavorsOf } from "./narrow.ts";

const serviceOf = (spec: object) =>
  inferenceServiceSchema.parse({ metadata: { name: "chat" }, spec: { modelRef: "m", ...spec } });
const two: Omit<Flavor, "name"> = {
  limits: { "nvidia.com/gpu": 2, memory: "16Gi" },
  nodeSelector: { zone: "a" },
};

test.each<[string, object, Omit<Flavor, "name">, RegExp | undefined]>([
  [
    "nothing contradicts",
    { resources: { gpu: 2, memory: "8Gi" }, nodeSelector: { zone: "a" } },
    two,
    undefined,
  ],
  [
    "another number of GPUs",
    { resources: { gpu: 1 } },
    two,
    /request 2 of the GPUs, and spec\.resources\.gpu of the service 1$/,
  ],
  ["more memory", { resources: { memory: "32Gi" } }, two, /limit of memory is 16Gi, .* requests 32Gi/],
  [
    "another zone",
    { nodeSelector: { zone: "b" } },
    two,
    /zone=a, and spec\.nodeSelector of the service zone=b/,
  ],
  ["hosts only", { placement: { on: "Hosts" } }, two, /spec\.placement\.on of the service is Hosts/],
  ["a group on hosts", { group: { size: 2 } }, { hostSelector: {} }, /spec\.group of the service needs pods/],
  ["a group on nodes", { group: { size: 2 } }, two, undefined],
  ["both platforms", { placement: { on: "Auto" } }, two, undefined],
  ["pods only", { placement: { on: "Pods" } }, { hostSelector: {} }, /spec\.placement\.on/],
  [
    "half a GPU",
    {},
    { limits: { "nvidia.com/gpu": "500m" } },
    /nvidia\.com\/gpu is 500m, and must be a whole/,
  ],
  [
    "GPUs of two kinds",
    {},
    { limits: { "nvidia.com/gpu": 1, "amd.com/gpu": 1 } },
    /GPUs of two kinds: nvidia\.com\/gpu and amd\.com\/gpu/,
  ],
])("%s", (_, spec, flavor, expected) => {
  const found = contradictionOf(serviceOf(spec).spec, { name: "f", ...flavor });
  if (expected === undefined) expect(found).toBeUndefined();
  else expect(found).toMatch(expected);
});

test("a host must match both the flavor and the service", () => {
  const studio: Flavor = { name: "studio", hostSelector: { matchLabels: { class: "studio" } } };
  expect(onHostsOf(serviceOf({}), studio).spec.placement).toMatchObject({
    on: "Hosts",
    hostSelector: { matchLabels: { class: "studio" } },
  });
  const own = { hostSelector: { matchLabels: { site: "a" } } };
  expect(onHostsOf(serviceOf({ placement: own }), studio).spec.placement.hostSelector).toEqual({
    matchLabels: { site: "a" },
    matchExpressions: [{ key: "class", operator: "In", values: ["studio"] }],
  });
});

const TYPE = "node.kubernetes.io/instance-type";

test.each<[string, Omit<Flavor, "name">, Omit<Flavor, "name">]>([
  [
    "the only target",
    { params: { instanceType: "g6e.xlarge" } },
    { nodeSelector: { [TYPE]: "g6e.xlarge" }, params: undefined },
  ],
  [
    "beside other labels and settings",
    { nodeSelector: { zone: "a" }, params: { instanceType: "g6e.xlarge", tensorParallelSize: 2 } },
    { nodeSelector: { zone: "a", [TYPE]: "g6e.xlarge" }, params: { tensorParallelSize: 2 } },
  ],
  ["none", two, two],
])("an instance type is a label that nodes must have: %s", (_, flavor, expected) => {
  const model = { spec: { source: "hf://org/m", flavors: [{ name: "f", ...flavor }] } };
  expect(flavorsOf({}, model as Parameters<typeof flavorsOf>[1])?.flavors).toEqual([
    { name: "f", ...expected },
  ]);
});

test("a service that requires another instance type excludes the flavor", () => {
  const { spec } = serviceOf({ nodeSelector: { [TYPE]: "g5.xlarge" } });
  const flavors = [{ name: "f", params: { instanceType: "g6e.xlarge" } }];
  const model = { spec: { source: "hf://org/m", flavors } } as Parameters<typeof flavorsOf>[1];
  const [flavor] = flavorsOf(spec, model)?.flavors ?? [];
  expect(flavor && contradictionOf(spec, flavor)).toMatch(
    /instance-type=g6e\.xlarge, and spec\.nodeSelector/,
  );
});
