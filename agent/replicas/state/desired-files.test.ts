import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { type InferenceReplica, inferenceReplicaSchema } from "../../../src/api/inference-replica.ts";
import type { Log } from "../../../src/util/ports.ts";
import { manifest } from "../../../test/fixtures/manifests.ts";
import { openDesiredFiles } from "./desired-files.ts";

const quiet: Log = { debug: () => {}, info: () => {}, warn: () => {}, error: () => {}, child: () => quiet };
let folder = "";

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "metalbridge-desired-"));
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

function replica(resourceVersion: string, drainSeconds = 30): InferenceReplica {
  const made = inferenceReplicaSchema.parse(
    manifest("InferenceReplica", "chat-0", "team"),
  ) as InferenceReplica;
  const metadata = { ...made.metadata, uid: "u1", resourceVersion, managedFields: [{}] };
  return { ...made, metadata, spec: { ...made.spec, drainSeconds }, status: { phase: "Ready" } };
}

test("the last saved replica is read back, without status and managed fields", async () => {
  const files = openDesiredFiles(folder, quiet);
  files.open();
  files.save("u1", replica("1"));
  files.save("u1", replica("2", 60));
  await files.settled();
  const read = openDesiredFiles(folder, quiet).readAll().get("u1");
  expect(read?.spec.drainSeconds).toBe(60);
  expect(read?.status).toBeUndefined();
  expect(read?.metadata.managedFields).toBeUndefined();
});

test("a change of status alone writes nothing", async () => {
  const files = openDesiredFiles(folder, quiet);
  files.open();
  files.save("u1", replica("1"));
  await files.settled();
  files.save("u1", replica("2"));
  await files.settled();
  expect(readFileSync(join(folder, "desired", "u1.json"), "utf8")).toContain('"resourceVersion":"1"');
});

test("an unreadable file is skipped, and half-written files are removed", async () => {
  const files = openDesiredFiles(folder, quiet);
  files.open();
  files.save("u1", replica("1"));
  await files.settled();
  writeFileSync(join(folder, "desired", "u2.json"), '{"metadata":');
  writeFileSync(join(folder, "desired", "u1.json.123.tmp"), "");
  const again = openDesiredFiles(folder, quiet);
  expect([...again.readAll().keys()]).toEqual(["u1"]);
  again.open();
  expect(readdirSync(join(folder, "desired")).sort()).toEqual(["u1.json", "u2.json"]);
});

test("a removed replica is not read back", async () => {
  const files = openDesiredFiles(folder, quiet);
  files.open();
  files.save("u1", replica("1"));
  files.remove("u1");
  await files.settled();
  expect(files.readAll().size).toBe(0);
});
