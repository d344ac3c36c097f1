import { expect, test } from "vitest";
import { createStore } from "./store.ts";

const object = (name: string, fieldsV1: object) => ({
  metadata: { name, resourceVersion: "1", managedFields: [{ manager: "one", fieldsV1 }] },
});

test("objects share the fields that their managers own, where they are the same", () => {
  const store = createStore();
  const fields = (name: string) => store.get(name)?.metadata.managedFields?.[0]?.fieldsV1;
  store.put(object("a", { "f:spec": { "f:replicas": {} } }));
  store.put(object("b", { "f:spec": { "f:replicas": {} } }));
  store.put(object("c", { "f:status": {} }));
  expect(fields("b")).toBe(fields("a"));
  expect(fields("c")).toEqual({ "f:status": {} });
  store.replaceAll([object("d", { "f:spec": { "f:replicas": {} } })]);
  expect(fields("d")).toEqual({ "f:spec": { "f:replicas": {} } });
});

test("long annotations of others are dropped, those of Metalbridge and short ones are kept", () => {
  const store = createStore();
  const long = "x".repeat(5_000);
  const annotations = {
    "example.com/dump": long,
    "not-metalbridge.dev/dump": long,
    "metalbridge.dev/template": long,
    "sub.metalbridge.dev/template": long,
    "example.com/short": "kept",
  };
  store.put({ metadata: { name: "a", resourceVersion: "1", annotations } });
  expect(Object.keys(store.get("a")?.metadata.annotations ?? {})).toEqual([
    "metalbridge.dev/template",
    "sub.metalbridge.dev/template",
    "example.com/short",
  ]);
});
