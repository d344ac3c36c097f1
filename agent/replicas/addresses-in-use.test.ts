import { expect, test } from "vitest";
import { until } from "../fixtures/until.ts";
import { processPorts, runFolder, shell } from "../process/fixtures/run.ts";
import { createEngineProcesses } from "../process/processes.ts";
import { noteAddresses } from "./addresses-in-use.ts";
import type { EngineFile } from "./files/engine-record.ts";

const record: EngineFile = {
  ...{ version: 1, runId: "a", uid: "u", namespace: "team", name: "chat", service: "chat" },
  ...{ runtime: "llamacpp", mode: "chat", revision: "r1", address: "192.0.2.10", port: 21_000 },
  ...{ claimBytes: 1, drainSeconds: 30, argv: [], startedAtMs: 1 },
};

const open = () => noteAddresses(createEngineProcesses(processPorts()));

test("the addresses of living engines are known, also to the next agent, and forgotten with their end", async () => {
  await using folder = runFolder();
  const dir = folder.dir();
  const first = open();
  const engine = await first.startEngine(dir, shell("exec sleep 100", { record }), () => {});
  await first.startEngine(
    folder.dir("other"),
    shell("exec sleep 100", { record: { ...record, address: "192.0.2.11" } }),
    () => {},
  );
  await until(() => expect(engine.state().at).toBe("running"));
  expect(first.addressesInUse()).toEqual(["192.0.2.10", "192.0.2.11"]);
  const next = open();
  expect(next.addressesInUse()).toEqual([]);
  const adopted = await next.adoptEngine(dir, () => {});
  expect(next.addressesInUse()).toEqual(["192.0.2.10"]);
  adopted?.signal("KILL");
  await until(() => expect(next.addressesInUse()).toEqual([]));
  await until(() => expect(first.addressesInUse()).toEqual(["192.0.2.11"]));
});

test("a folder without a record that can be read names no address", async () => {
  await using folder = runFolder();
  const processes = open();
  await createEngineProcesses(processPorts()).startEngine(folder.dir(), shell("exec sleep 100"), () => {});
  expect(await processes.adoptEngine(folder.dir(), () => {})).toBeDefined();
  expect(await processes.adoptEngine(folder.dir("nothing"), () => {})).toBeUndefined();
  expect(processes.addressesInUse()).toEqual([]);
});
