/** Removing a host beside a running controller: its replicas move or go, and nothing of it is left. */
import { expect, test, vi } from "vitest";
import { LABEL_HOST, NAMESPACE_HOSTS } from "../src/api/group.ts";
import { ENDPOINT_SLICES } from "../src/kube/kinds.ts";
import type { KubeObject } from "../src/kube/types.ts";
import { runVerb } from "../test/cli/program.ts";
import { inferenceService, startBench } from "../test/controller/bench.ts";

const WAIT = { timeout: 60_000, interval: 100 };

test("a host is drained and removed, another with its replicas, and no slice or replica is left", async () => {
  await using bench = await startBench();
  const { objects } = bench.cluster;
  const ns = "team";
  await objects.createNamespace(ns);
  await bench.agent("mac-1");
  await bench.model(ns, "tiny");
  await bench.apply(inferenceService(ns, "chat"));
  const serving = (host: string) =>
    vi.waitFor(async () => {
      const [only, ...others] = await bench.replicas(ns);
      expect(others).toEqual([]);
      expect(only?.spec.template.hostName).toBe(host);
      expect(only?.status?.phase).toBe("Ready");
    }, WAIT);
  await serving("mac-1");
  const second = await bench.agent("mac-2");
  const run = (...args: string[]) => runVerb(["host", ...args], bench.cluster);
  for (const host of ["mac-1", "mac-2"]) expect((await run("add", host)).code).toBe(0);

  const drained = await run("remove", "mac-1", "--drain", "--timeout", "60s");
  expect(drained, drained.stderr).toMatchObject({ code: 0 });
  await serving("mac-2");
  expect((await run("remove", "mac-2")).stderr).toMatch(/NotConfirmed/);
  second.fallSilent();
  expect((await run("remove", "mac-2", "--yes")).code).toBe(0);
  await vi.waitFor(async () => {
    expect(await bench.replicas(ns)).toEqual([]);
    expect(await objects.list(ENDPOINT_SLICES, LABEL_HOST, ns)).toEqual([]);
  }, WAIT);
  const kinds = ["hosts", "clusterrolebindings", "serviceaccounts", "roles", "rolebindings"];
  const left = await Promise.all(kinds.map((kind) => objects.get(NAMESPACE_HOSTS, kind)));
  const names = left.flatMap(({ items }) => items.map(({ metadata }: KubeObject) => metadata.name));
  expect(names).not.toContainEqual(expect.stringMatching(/mac-[12]/));
});
