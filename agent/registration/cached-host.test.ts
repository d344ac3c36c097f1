import { mkdtempSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { type Host, hostSchema } from "../../src/api/host.ts";
import { until } from "../../test/bed/until.ts";
import { keepLines, type LogLine } from "../../test/fixtures/log-lines.ts";
import { openCachedHost } from "./cached-host.ts";

function host(name: string, gpuBudget: string): Host {
  return hostSchema.parse({
    apiVersion: "metalbridge.dev/v1alpha1",
    kind: "Host",
    metadata: { name, resourceVersion: "7" },
    spec: { memory: { gpuBudget } },
  }) as Host;
}

function open(stateDir = mkdtempSync(join(tmpdir(), "mb-kept-"))) {
  const lines: LogLine[] = [];
  const kept = openCachedHost(stateDir, "mac-1", keepLines(lines));
  onTestFinished(async () => {
    await kept.settled();
    rmSync(stateDir, { recursive: true, force: true });
  });
  return { stateDir, lines, kept };
}

test("the saved Host is read by the next agent, and removed with the Host", async () => {
  const { stateDir, kept, lines } = open();
  expect(kept.read()).toBeUndefined();
  kept.save(host("mac-1", "8Gi"));
  kept.save(host("mac-1", "4Gi"));
  await until(() => expect(open(stateDir).kept.read()?.spec.memory.gpuBudget).toBe("4Gi"));
  expect(readdirSync(stateDir)).toEqual(["host.json"]);
  kept.save(undefined);
  await until(() => expect(readdirSync(stateDir)).toEqual([]));
  expect(lines).toEqual([]);
});

test("the last saved Host is on disk once `settled` resolves, so that no write reaches the next agent's folder", async () => {
  const { stateDir, kept } = open();
  for (const budget of ["8Gi", "4Gi", "2Gi"]) kept.save(host("mac-1", budget));
  await kept.settled();
  expect(readdirSync(stateDir)).toEqual(["host.json"]);
  expect(open(stateDir).kept.read()?.spec.memory.gpuBudget).toBe("2Gi");
});

test("a Host of another name, or one that a crash truncated, is ignored", async () => {
  const { stateDir, kept } = open();
  kept.save(host("mac-2", "8Gi"));
  await until(() => expect(readdirSync(stateDir)).toEqual(["host.json"]));
  expect(kept.read()).toBeUndefined();
  writeFileSync(join(stateDir, "host.json"), '{"metadata":');
  const next = open(stateDir);
  expect(next.kept.read()).toBeUndefined();
  expect(next.lines).toHaveLength(1);
});
