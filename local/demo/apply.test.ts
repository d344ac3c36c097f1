import { expect, test } from "vitest";
import { withoutFields } from "./apply.ts";

test.for([
  [[".spec.replicas"], { spec: { modelRef: "m", endpoint: { port: 1 } } }],
  [[".spec.endpoint.port"], { spec: { modelRef: "m", replicas: 1, endpoint: {} } }],
  [[".spec.replicas", ".spec.endpoint"], { spec: { modelRef: "m" } }],
  [[".spec.nothing.like.it"], { spec: { modelRef: "m", replicas: 1, endpoint: { port: 1 } } }],
  [['.spec.endpoint[name="a"].port'], { spec: { modelRef: "m", replicas: 1 } }],
] as const)("without %j", ([fields, expected]) => {
  const object = { spec: { modelRef: "m", replicas: 1, endpoint: { port: 1 } } };
  expect(withoutFields<object>(object, fields)).toEqual(expected);
  expect(object.spec.replicas).toBe(1);
});
