import { expect, test } from "vitest";
import { createSlimmer } from "./store.ts";

test("objects share the fields that their managers own, where they are the same", () => {
  const slim = createSlimmer();
  const fields = (fieldsV1: object) =>
    slim({ metadata: { name: "a", managedFields: [{ manager: "one", fieldsV1 }] } }).metadata
      .managedFields?.[0]?.fieldsV1;
  const first = fields({ "f:spec": { "f:replicas": {} } });
  expect(fields({ "f:spec": { "f:replicas": {} } })).toBe(first);
  expect(fields({ "f:status": {} })).toEqual({ "f:status": {} });
});

test("nodes share the images that they have in common, also where a cluster has thousands", () => {
  const slim = createSlimmer();
  const image = (name: string) => ({ names: [`registry.example.com/${name}:v1`], sizeBytes: 1e8 });
  const imagesOf = (...names: string[]) => {
    const node = { metadata: { name: "a" }, status: { images: names.map(image) } };
    slim(node);
    return node.status.images;
  };
  const first = imagesOf("one", "two");
  const second = imagesOf("two", "three");
  expect(second).toEqual([image("two"), image("three")]);
  expect(second[0]).toBe(first[1]);
  for (let index = 0; index < 5_000; index += 1) imagesOf(`other-${index}`);
  expect(imagesOf("two")[0]).toBe(first[1]);
});

test("long annotations of others are dropped, those of Metalbridge and short ones are kept", () => {
  const long = "x".repeat(5_000);
  const annotations = {
    "example.com/dump": long,
    "not-metalbridge.dev/dump": long,
    "metalbridge.dev/template": long,
    "sub.metalbridge.dev/template": long,
    "example.com/short": "kept",
  };
  const { metadata } = createSlimmer()({ metadata: { name: "a", annotations } });
  expect(Object.keys(metadata.annotations ?? {})).toEqual([
    "metalbridge.dev/template",
    "sub.metalbridge.dev/template",
    "example.com/short",
  ]);
});
