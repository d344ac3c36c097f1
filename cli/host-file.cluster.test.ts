/** `metalbridge host add -f` against the real API server. */

import { execFile, spawn } from "node:child_process";
import { randomBytes } from "node:crypto";
import { once } from "node:events";
import { writeFile } from "node:fs/promises";
import path from "node:path";
import { promisify } from "node:util";
import { expect, test } from "vitest";
import { packageRoot } from "../local/package-root.ts";
import { NAMESPACE_HOSTS } from "../src/api/group.ts";
import { HOSTS } from "../src/api/kinds.ts";
import { SECRETS } from "../src/kube/kinds.ts";
import { readTokenClaims } from "../src/kube/token.ts";
import type { KubeObject } from "../src/kube/types.ts";
import { runVerb } from "../test/cli/program.ts";
import { oneCluster } from "../test/cluster/cluster.ts";
import { temporaryFolder } from "../test/fixtures/temporary-folder.ts";

const own = oneCluster();

interface Entry {
  readonly name: string;
  readonly addresses: readonly string[];
}

async function add(hosts: unknown, ...flags: string[]) {
  await using folder = await temporaryFolder();
  const file = path.join(folder.path, "hosts.json");
  await writeFile(file, JSON.stringify(hosts));
  return await runVerb(["host", "add", "-f", file, ...flags], own());
}

const names = async () =>
  (await own().objects.list(HOSTS)).map(({ metadata }: KubeObject) => metadata.name).sort();

function farm(count: number, network: number): readonly Entry[] {
  const prefix = randomBytes(2).toString("hex");
  return Array.from({ length: count }, (_, index) => ({
    name: `f${prefix}-${index}`,
    addresses: [`10.50.${network}.${index + 1}`],
  }));
}

test("twenty hosts are added, each with a token of its own; a second run says that they exist and ends no token", async () => {
  const { objects, kubectl } = own();
  const hosts = farm(20, 1);
  const planned = await add(hosts, "--dry-run");
  expect(planned).toMatchObject({ code: 0, stderr: "20 would be added\n" });
  expect(await names()).toEqual([]);
  const { code, stdout, stderr } = await add(hosts, "-o", "json");
  expect({ code, stderr }).toMatchObject({ code: 0, stderr: expect.stringMatching(/20 added\n$/) });
  const added: readonly Record<string, string>[] = JSON.parse(stdout);
  expect(added.map(({ host, status }) => [host, status])).toEqual(hosts.map(({ name }) => [name, "added"]));
  for (const { host, token = "", command, server, expiresAt = "" } of added) {
    expect(readTokenClaims(token)?.host).toBe(host);
    expect(command).toContain(`metalbridge join --server ${server}`);
    expect(Date.parse(expiresAt)).toBeGreaterThan(Date.now());
  }
  const more = [...hosts, ...farm(1, 2)];
  const again = await add(more);
  expect(again.stdout.match(/: exists$/gm)).toHaveLength(20);
  expect(again.stdout).toMatch(new RegExp(`^${more.at(-1)?.name}: metalbridge join `, "m"));
  const first = added[0]?.token ?? "";
  await kubectl(["auth", "whoami", `--token=${first}`]);
  // As after a run that was cut off between a Host and its account.
  const [cut = "", kept = ""] = hosts.map(({ name }) => name);
  const selector = `metalbridge.dev/host in (${cut},${kept})`;
  for (const { metadata } of await objects.list(SECRETS, selector, NAMESPACE_HOSTS))
    await objects.remove(NAMESPACE_HOSTS, `secret/${metadata.name}`);
  const reachable = { type: "Reachable", status: "True", reason: "HostReachable", message: "" };
  const conditions = [{ ...reachable, lastTransitionTime: "2026-03-01T12:00:00Z" }];
  await objects.patch("", `host/${kept}`, { status: { conditions } }, "status");
  const healed = await add(hosts.slice(0, 2));
  expect(healed.stdout).toMatch(new RegExp(`^${cut}: metalbridge join .*\n${kept}: exists\n$`));
});

test("a Host that exists with other addresses than the file's is named, and not changed", async () => {
  const [one, two] = farm(2, 6);
  if (one === undefined || two === undefined) throw new Error("two hosts");
  expect((await add([one, two])).stderr).toMatch(
    /^run each command once on the machine, within .* with sudo [\s\S]*\n2 added\n$/m,
  );
  const moved = { ...one, addresses: ["10.50.6.77", "10.50.6.1"] };
  const listed = await add([moved, two]);
  expect(listed).toMatchObject({ code: 0, stdout: `${one.name}: exists\n${two.name}: exists\n` });
  expect(listed.stderr).toBe(
    `host ${one.name} has 10.50.6.1, the file has 10.50.6.77, 10.50.6.1: not changed; to change it, run kubectl edit host ${one.name}\n2 exists\n`,
  );
  const results = JSON.parse((await add([moved, two], "--dry-run", "-o", "json")).stdout);
  expect(results).toEqual([
    { host: one.name, status: "exists", registeredAddresses: ["10.50.6.1"] },
    { host: two.name, status: "exists" },
  ]);
  const reversed = { ...two, addresses: [...two.addresses].reverse() };
  expect((await add([reversed])).stderr).toBe("1 exists\n");
});

test("the notes come before the commands that they are about", async () => {
  await using folder = await temporaryFolder();
  const file = path.join(folder.path, "hosts.json");
  await writeFile(file, JSON.stringify(farm(1, 7)));
  const command = `"$0" "$1" host add -f ${file} 2>&1`;
  const program = [process.execPath, path.join(packageRoot(), "cli/metalbridge.mjs")];
  const { stdout } = await promisify(execFile)("/bin/sh", ["-c", command, ...program], {
    env: { PATH: process.env.PATH, KUBECONFIG: own().kubeconfig, HOME: "/nonexistent" },
  });
  expect(stdout.indexOf("run this command once on the machine")).toBeGreaterThanOrEqual(0);
  expect(stdout.indexOf("run this command once on the machine")).toBeLessThan(
    stdout.indexOf(": metalbridge join "),
  );
});

test("nothing is written for an address of another Host, or for what the API server refuses", async () => {
  const before = await names();
  const [one, two] = farm(2, 3);
  const taken = { ...two, addresses: ["10.50.1.1"] };
  const shared = await add([one, taken]);
  expect(shared).toMatchObject({ code: 1, stdout: "" });
  expect(shared.stderr).toMatch(
    /^HostsFileInvalid: nothing was added: \n {2}\S+hosts\.json:1: host 2: the address 10\.50\.1\.1 belongs to Host f/,
  );
  const loopback = await add([one, { ...two, addresses: ["127.0.0.1"] }]);
  expect(loopback.stderr).toMatch(/HostsFileInvalid: [\s\S]*hosts\.json:1: .*no loopback/);
  const label = await add([one, { ...two, labels: { "not a key": "x" } }]);
  expect(label.stderr).toMatch(/HostsFileInvalid: [\s\S]*not a key/);
  expect(await names()).toEqual(before);
});

test("the example is added, from standard input too", async () => {
  const file = path.join(packageRoot(), "examples/mac-fleet/hosts.yaml");
  const { code, stdout } = await runVerb(["host", "add", "-f", file], own());
  expect({ code, lines: stdout.trim().split("\n").length }).toEqual({ code: 0, lines: 4 });
  expect(await own().objects.get("", "host/mac-01")).toMatchObject({
    metadata: { labels: { team: "research" } },
    spec: { addresses: ["192.168.1.21"], memory: { systemReserve: "8Gi" }, disk: { quota: "200Gi" } },
  });
  const child = spawn(
    process.execPath,
    [path.join(packageRoot(), "cli/metalbridge.mjs"), "host", "add", "-f", "-"],
    {
      env: { PATH: process.env.PATH, KUBECONFIG: own().kubeconfig, HOME: "/nonexistent" },
      stdio: ["pipe", "pipe", "inherit"],
    },
  );
  child.stdin.end(JSON.stringify([{ name: "mac-01", addresses: ["192.168.1.21"] }]));
  let text = "";
  child.stdout.setEncoding("utf8").on("data", (chunk: string) => (text += chunk));
  await once(child, "close");
  expect(text).toBe("mac-01: exists\n");
});

test("what does not go together on the command line is refused", async () => {
  for (const args of [
    ["--dry-run", "mac-1"],
    ["-f", "x", "mac-1"],
  ])
    expect([args, (await runVerb(["host", "add", ...args], own())).code]).toEqual([args, 2]);
});

test("a host that fails stops no other, and a refused right stops all", async () => {
  const hosts = farm(3, 4);
  const name = hosts[1]?.name ?? "";
  // Its account is being deleted, and waits for others.
  await own().objects.create({
    apiVersion: "rbac.authorization.k8s.io/v1",
    kind: "ClusterRoleBinding",
    metadata: { name: `metalbridge-agent-${name}`, finalizers: ["example.com/waits"] },
    roleRef: { apiGroup: "rbac.authorization.k8s.io", kind: "ClusterRole", name: "view" },
  });
  const { code, stdout, stderr } = await add(hosts);
  expect(code).toBe(1);
  expect(stdout.match(/: metalbridge join /g)).toHaveLength(2);
  expect(stdout).toMatch(new RegExp(`^${name}: failed: `, "m"));
  expect(stderr).toMatch(new RegExp(`HostsNotAdded: 1 of 3 hosts were not added: ${name}`));
});
