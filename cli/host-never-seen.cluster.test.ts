/** A host that is registered, and that no agent has ever reported for: nothing is known of it, which is not the same as nothing. */
import { beforeAll, expect, test } from "vitest";
import { addHost } from "../test/bed/identity.ts";
import { runVerb } from "../test/cli/program.ts";
import { oneCluster } from "../test/cluster/cluster.ts";

const cluster = oneCluster();
const run = (...args: string[]) => runVerb(args, cluster());

beforeAll(() => addHost(cluster(), "silent", ["192.0.2.1"]));

test("its stored models are unknown", async () => {
  const listed = await run("models", "list", "--host", "silent");
  expect(listed).toMatchObject({ code: 1, stdout: "" });
  expect(listed.stderr).toMatch(/^HostNeverSeen: the agent of host silent has not reported yet\n/);
  const all = await run("models", "list", "--all-hosts", "-o", "json");
  expect(all).toEqual({
    code: 0,
    stdout: "[]\n",
    stderr: "silent: its agent has not reported yet\n",
  });
});

test("doctor says so, and not that its agent offers no remote doctor", async () => {
  const checked = await run("doctor", "--host", "silent");
  expect(checked.stdout).toContain("HostNeverSeen: the agent of host silent has not reported yet\n");
  expect(checked.code).toBe(1);
});
