/**
 * Machines join with the token of a group, beside a running controller with the rights of examples/install.
 * CPU: seventeen machines join, each with a program of its own.
 */
import { existsSync } from "node:fs";
import { readdir, readFile } from "node:fs/promises";
import path from "node:path";
import { afterAll, beforeAll, expect, test, vi } from "vitest";
import { testAddress } from "../agent/fixtures/agent.ts";
import { JOIN_REQUESTS_MAX, joinAccount } from "../src/api/access/join-group.ts";
import { API_VERSION, NAMESPACE_HOSTS, NAMESPACE_JOIN } from "../src/api/group.ts";
import { HOST_JOIN_REQUESTS, HOSTS } from "../src/api/kinds.ts";
import { createJoinKey, openSealed } from "../src/crypto/join-seal.ts";
import { readTokenClaims } from "../src/kube/token.ts";
import type { KubeObject } from "../src/kube/types.ts";
import { writeTokenKubeconfig } from "../test/bed/identity.ts";
import { type Objects, objectsOf } from "../test/bed/objects.ts";
import { type Program, type ProgramEnd, runVerb, startProgram } from "../test/cli/program.ts";
import { WITHOUT_PODS } from "../test/cluster/planes.ts";
import { type Bench, startBench } from "../test/controller/bench.ts";
import { selfSigned } from "../test/fixtures/self-signed.ts";
import { program as llamaServer } from "../test/fixtures/started-llama-server.ts";
import { type TemporaryFolder, temporaryFolder } from "../test/fixtures/temporary-folder.ts";

const WAIT = { timeout: 60_000, interval: 100 };
const withEngine = test.skipIf(llamaServer === undefined);
/** The group of the tests with real machines. */
let studio: Group;
let bench: Bench;
let folder: TemporaryFolder;
const opened = new DisposableStack();

beforeAll(async () => {
  folder = await temporaryFolder();
  bench = await startBench({
    controlPlane: { controllerManager: [...WITHOUT_PODS, "resourcequota-controller"] },
  });
});

afterAll(async () => {
  opened.dispose();
  await bench[Symbol.asyncDispose]();
  await folder[Symbol.asyncDispose]();
});

const run = (...args: string[]): Promise<ProgramEnd> => runVerb(args, bench.cluster);

interface Group {
  readonly token: string;
  readonly expiresAt: string;
  readonly command: string;
  /** The cluster with its token. */
  readonly objects: Objects;
}

async function createGroup(name: string, ...flags: string[]): Promise<Group> {
  const args = ["host", "token", "create", "--group", name, ...flags, "-o", "json"];
  const { code, stdout, stderr } = await run(...args);
  expect({ code, stderr }).toMatchObject({ code: 0 });
  const group = JSON.parse(stdout);
  const file = path.join(folder.path, `${name}.kubeconfig`);
  await writeTokenKubeconfig(bench.cluster, group.token, file);
  return { ...group, objects: opened.use(objectsOf(file)) };
}

function joinArgs({ command }: Group, name: string, ...more: string[]): string[] {
  const [, ...args] = command.split(" ");
  const state = path.join(folder.path, name);
  return [...args, "--name", name, "--state-dir", state, "--llama-server", llamaServer ?? "", ...more];
}

const join = (
  group: Group,
  name: string,
  address = testAddress(),
  env: Readonly<Record<string, string>> = {},
): Program => startProgram(joinArgs(group, name, "--address", address), { env });

const stateOf = (name: string) => path.join(folder.path, name);
const kubeconfigOf = (name: string) => path.join(stateOf(name), "kubeconfig");

const waits = (machine: Program, name: string) =>
  vi.waitFor(() => expect(machine.stderr()).toContain(`metalbridge host approve ${name}`), WAIT);

async function whoIs(host: string): Promise<string> {
  using own = objectsOf(kubeconfigOf(host));
  const review = { apiVersion: "authentication.k8s.io/v1", kind: "SelfSubjectReview", metadata: {} };
  return (await own.create(review)).status.userInfo.username;
}

async function requestOf(name: string) {
  const listed = await bench.client.list(HOST_JOIN_REQUESTS, { namespace: NAMESPACE_JOIN });
  if (!listed.ok) throw new Error(listed.error.message);
  return listed.value.items.find(({ spec }) => spec.hostName === name);
}

/** As a machine does, without the machine. */
async function ask(
  { objects }: Group,
  group: string,
  hostName: string,
  address: string,
  key = createJoinKey(),
) {
  const object = {
    apiVersion: API_VERSION,
    kind: "HostJoinRequest",
    metadata: { name: key.publicKey, namespace: NAMESPACE_JOIN },
    spec: { hostName, group, addresses: [address], machineId: `machine-of-${hostName}` },
  };
  await objects.create(object);
  return key;
}

const answerTo = (publicKey: string) =>
  vi.waitFor(async () => {
    const found = await bench.client.get(HOST_JOIN_REQUESTS, { name: publicKey, namespace: NAMESPACE_JOIN });
    if (!found.ok) throw new Error(found.error.message);
    const { status } = found.value;
    expect(status?.phase).toMatch(/Admitted|Rejected/);
    return status;
  }, WAIT);

/** An address that no machine here has. */
const ELSEWHERE = "10.9.9.9";

withEngine("a rejected machine reports why", async () => {
  studio = await createGroup("studio", "--limit", "2", "--name-pattern", "mac-*");
  await using machine = join(studio, "mac-20", ELSEWHERE);
  await waits(machine, "mac-20");
  expect((await run("host", "reject", "mac-20", "--because", "not one of ours")).code).toBe(0);
  expect(await machine.ended).toMatchObject({
    code: 1,
    stderr: expect.stringMatching(/JoinDeclined: host mac-20 may not join: .*not one of ours/),
  });
});

withEngine(
  "a machine waits for its approval, also after an interrupt, joins, and joins no second time",
  async () => {
    {
      await using temporary = await temporaryFolder();
      await using first = join(studio, "mac-07", testAddress(), { TMPDIR: temporary.path });
      await waits(first, "mac-07");
      first.child.kill("SIGINT");
      expect(await first.ended).toMatchObject({ code: 130 });
      // It has held the token of the group.
      expect(await readdir(temporary.path)).toEqual([]);
    }
    await using machine = join(studio, "mac-07");
    await waits(machine, "mac-07");
    const key = /key ([0-9a-f]{16})/.exec(machine.stderr())?.[1] ?? "";
    const list = await run("host", "list");
    expect(list.stdout).toMatch(new RegExp(`WAITS TO JOIN +GROUP[^]*\\nmac-07 +studio .* ${key} `));
    expect((await run("host", "token", "list")).stdout).toMatch(/^studio +0\/2 +1 +manual +mac-\* +any/m);
    expect(await run("host", "approve", "mac-07")).toMatchObject({
      code: 0,
      stdout: `host mac-07 (key ${key}) is approved: the machine is joining\n`,
    });
    const ended = await machine.ended;
    expect(ended, ended.stderr).toMatchObject({ code: 0 });
    expect(ended.stdout).toContain("this machine has joined as host mac-07");
    expect(await readFile(kubeconfigOf("mac-07"), "utf8")).not.toContain(studio.token);
    expect(existsSync(path.join(stateOf("mac-07"), "join-key"))).toBe(false);
    expect(await whoIs("mac-07")).toBe(`system:serviceaccount:${NAMESPACE_HOSTS}:mac-07`);
    const again = await join(studio, "mac-07").ended;
    expect(again).toMatchObject({ code: 0, stdout: "this machine has already joined as host mac-07\n" });
    expect((await run("host", "approve", "mac-07")).stderr).toMatch(/^JoinRequestNotFound: /);
    if ((await requestOf("mac-07"))?.spec.machineId === undefined) return;
    const renamed = await join(studio, "mac-22", ELSEWHERE).ended;
    expect(renamed.stderr).toMatch(
      /JoinMachineKnown: .*this machine is Host mac-07; .*metalbridge host add mac-07/,
    );
  },
);

withEngine("a revoked token ends what waits with it, and no host that has joined", async () => {
  const key = await ask(studio, "studio", "mac-08", "10.9.9.8");
  await vi.waitFor(async () => expect((await requestOf("mac-08"))?.status?.phase).toBe("Pending"), WAIT);
  expect((await run("host", "token", "create", "--group", "studio", "--limit", "1")).stderr).toMatch(
    /^JoinGroupExists: /,
  );
  expect((await run("host", "token", "revoke", "studio")).code).toBe(0);
  expect(await requestOf("mac-08")).toBeUndefined();
  await vi.waitFor(
    () => expect(ask(studio, "studio", "mac-08", "10.9.9.8", key)).rejects.toThrow(/Unauthorized/),
    WAIT,
  );
  expect((await join(studio, "mac-09", ELSEWHERE).ended).stderr).toMatch(
    /JoinTokenRefused: the token of group studio is refused: it was revoked/,
  );
  expect(await whoIs("mac-07")).toContain("mac-07");
  expect((await run("host", "token", "revoke", "studio")).stderr).toMatch(/^JoinGroupNotFound: /);
});

test("an API server with another certificate authority ends the wait; one that is not reachable yet does not", async () => {
  const group = await createGroup("trust", "--limit", "1");
  const withFlag = (flag: string, value: string): Group => ({
    ...group,
    command: group.command.replace(new RegExp(`${flag} \\S+`), `${flag} ${value}`),
  });
  await using other = join(withFlag("--ca-data", selfSigned().cert.toString("base64")), "mac-31", ELSEWHERE);
  expect(await other.ended).toMatchObject({
    code: 1,
    stderr: expect.stringMatching(
      /^ApiCertificateUntrusted: .*\n.*check --server, --ca-data and this machine's clock/,
    ),
  });
  await using cut = join(withFlag("--ca-data", "ca.crt"), "mac-31", ELSEWHERE);
  expect(await cut.ended).toMatchObject({
    code: 2,
    stderr: expect.stringMatching(/^error: --ca-data is not the base64 of a PEM certificate/),
  });
  await using away = join(withFlag("--server", "https://127.0.0.1:1"), "mac-31", ELSEWHERE);
  await vi.waitFor(() => expect(away.stderr()).toMatch(/retrying: .*ECONNREFUSED/), WAIT);
  away.child.kill("SIGINT");
  expect(await away.ended).toMatchObject({ code: 130 });
});

test("an approval that the controller refuses is reported as refused", async () => {
  const group = await createGroup("approvals", "--limit", "1");
  const names = ["late-1", "late-2"];
  for (const [index, name] of names.entries()) await ask(group, "approvals", name, `10.40.0.${index + 1}`);
  const { code, stdout, stderr } = await run("host", "approve", ...names);
  expect(code).toBe(1);
  expect(stdout).toMatch(/^host late-. \(key \w{16}\) is approved: the machine is joining$/m);
  expect(stdout).toMatch(/^host late-. \(key \w{16}\) is refused: JoinLimitReached: all 1 hosts /m);
  expect(stdout.match(/\n/g)).toHaveLength(2);
  expect(stderr).toMatch(/^JoinLimitReached: 1 of 2 hosts may not join; first: host late-. may not join: /);
});

test("of 20 machines that ask at once, a limit of 10 admits exactly 10, each with a token that only it can read", async () => {
  const flags = ["--limit", "10", "--approve", "auto", "--addresses", "10.20.0.0/16"];
  const group = await createGroup("many", ...flags);
  const names = Array.from({ length: 20 }, (_, index) => `many-${index}`);
  const keys = await Promise.all(
    names.map((name, index) => ask(group, "many", name, `10.20.0.${index + 1}`)),
  );
  const answers = await Promise.all(keys.map(({ publicKey }) => answerTo(publicKey)));
  const admitted = answers.flatMap((status, index) => (status?.phase === "Admitted" ? [index] : []));
  expect(admitted).toHaveLength(10);
  const others = answers.filter((status) => status?.phase === "Rejected");
  expect(others.map((status) => status?.reason)).toEqual(Array(10).fill("JoinLimitReached"));
  const listed = await bench.client.list(HOSTS);
  const hosts = listed.ok ? listed.value.items.map(({ metadata }) => metadata.name) : [];
  expect(hosts.filter((name) => name.startsWith("many-")).sort()).toEqual(
    admitted.map((index) => names[index]).sort(),
  );
  for (const index of admitted) {
    const sealed = answers[index]?.sealedToken ?? "";
    const [own, other] = [keys[index], keys[(index + 1) % 20]];
    if (own === undefined || other === undefined) throw new Error("a key for each name");
    expect(openSealed(other, sealed)).toBeUndefined();
    expect(readTokenClaims(openSealed(own, sealed) ?? "")?.host).toBe(names[index]);
  }
  expect((await run("host", "token", "list", "-o", "json")).stdout).toContain('"group": "many"');
});

test("a stolen token reaches no existing Host, no other address, no name outside its pattern", async () => {
  const flags = [
    "--limit",
    "10",
    "--approve",
    "auto",
    "--addresses",
    "10.30.0.0/24",
    "--name-pattern",
    "ok-?",
  ];
  const group = await createGroup("stolen", ...flags);
  const spec = { addresses: ["10.30.0.9"] };
  await bench.objects.create({ apiVersion: API_VERSION, kind: "Host", metadata: { name: "ok-1" }, spec });
  await vi.waitFor(async () => {
    for (const [name, address, reason] of [
      ["ok-1", "10.30.0.1", "JoinNameTaken"],
      ["ok-2", "10.31.0.1", "JoinNotAllowed"],
      ["other", "10.30.0.1", "JoinNotAllowed"],
      ["ok-3", "10.30.0.9", "JoinAddressTaken"],
    ] as const) {
      const { publicKey } = await ask(group, "stolen", name, address);
      expect([name, (await answerTo(publicKey))?.reason]).toEqual([name, reason]);
    }
  }, WAIT);
  // A low-order key: everyone can compute the shared secret.
  await ask(group, "stolen", "ok-4", "10.30.0.4", { privateKey: "", publicKey: "0".repeat(64) });
  expect((await answerTo("0".repeat(64)))?.reason).toBe("JoinNotAllowed");
  for (const kind of ["secrets", "serviceaccounts"]) {
    const { items } = await bench.objects.get(NAMESPACE_HOSTS, kind);
    expect(JSON.stringify(items.map(({ metadata }: KubeObject) => metadata.name))).not.toContain("ok-");
  }
});

test("the number of requests is bounded, whoever makes them", async () => {
  const key = "count/hostjoinrequests.metalbridge.dev";
  await bench.objects.until(NAMESPACE_JOIN, "resourcequota/metalbridge-join", ({ status }) =>
    expect(status.hard).toEqual({ [key]: String(JOIN_REQUESTS_MAX) }),
  );
  const group = await createGroup("flood", "--limit", "1");
  const hard = (count: number) =>
    bench.objects.patch(NAMESPACE_JOIN, "resourcequota/metalbridge-join", {
      spec: { hard: { [key]: String(count) } },
    });
  await hard(0);
  await vi.waitFor(
    () => expect(ask(group, "flood", "flood-1", "10.1.1.1")).rejects.toThrow(/exceeded quota/),
    WAIT,
  );
  expect((await join(group, "flood-2", ELSEWHERE).ended).stderr).toMatch(/JoinRequestsFull: /);
  await hard(JOIN_REQUESTS_MAX);
});

test("only accounts of groups are made, listed and revoked", async () => {
  await createGroup("first", "--limit", "1");
  const metadata = { name: "theirs", namespace: NAMESPACE_JOIN };
  await bench.objects.create({ apiVersion: "v1", kind: "ServiceAccount", metadata });
  const create = (name: string) => run("host", "token", "create", "--group", name, "--limit", "1");
  expect(await create("default")).toMatchObject({ code: 2, stderr: expect.stringContaining("default") });
  expect((await create("theirs")).stderr).toMatch(/^JoinGroupInvalid: .*theirs .*does not belong to a group/);
  for (const name of ["default", "theirs"])
    expect((await run("host", "token", "revoke", name)).stderr).toMatch(/^JoinGroupNotFound: /);
  for (const name of ["default", "theirs"]) await bench.objects.get(NAMESPACE_JOIN, `serviceaccount/${name}`);
  expect((await run("host", "token", "list")).stdout).not.toMatch(/^(default|theirs) /m);
});

test("a group has the end that the API server gave its token, and a create that ended early is continued", async () => {
  const never = { limit: 9, expiresAt: "1970-01-01T00:00:00Z", addresses: [] };
  const account = joinAccount("early", { ...never, approve: "auto", namePattern: "*" });
  await bench.objects.create({ apiVersion: "v1", kind: "ServiceAccount", ...account });
  const { token, expiresAt } = await createGroup("early", "--limit", "3", "--valid-for", "2h");
  expect(Date.parse(expiresAt) / 1_000).toBe(readTokenClaims(token)?.expiresAt);
  const listed = JSON.parse((await run("host", "token", "list", "-o", "json")).stdout);
  expect(listed).toContainEqual(
    expect.objectContaining({ group: "early", limit: 3, approve: "manual", expiresAt }),
  );
  expect((await run("host", "token", "create", "--group", "early", "--limit", "1")).stderr).toMatch(
    /^JoinGroupExists: /,
  );
});

test.each([
  ["0.0.0.0/0", "auto", true],
  ["::/0", "auto", true],
  ["128.0.0.0/1", "auto", true],
  ["10.0.0.0/8", "auto", false],
  ["fc00::/7", "auto", false],
  ["0.0.0.0/0", "manual", false],
])("%s with --approve %s: a warning is %s", async (network, approve, isWarned) => {
  const group = `wide-${network.replaceAll(/[^0-9a-z]/g, "-")}-${approve}`.replaceAll(/-+/g, "-");
  const flags = ["--group", group, "--limit", "2", "--approve", approve, "--addresses", network];
  const { code, stdout, stderr } = await run("host", "token", "create", ...flags);
  expect({ code, stdout }).toMatchObject({
    code: 0,
    stdout: expect.stringMatching(/^sudo metalbridge join .*\n$/),
  });
  expect(/^warning: /m.test(stderr), stderr).toBe(isWarned);
  if (isWarned)
    expect(stderr).toContain(
      `warning: ${network} is wider than any private network: anyone with the token can register up to 2 machines from it without an approval`,
    );
});

test("auto needs networks, and a wrong limit, time or pattern is refused", async () => {
  const create = (...flags: string[]) => run("host", "token", "create", "--group", "bad", ...flags);
  expect((await create("--limit", "1", "--approve", "auto")).stderr).toMatch(
    /^JoinGroupInvalid: .*--addresses/,
  );
  for (const flags of [
    ["--limit", "1001"],
    ["--limit", "1", "--valid-for", "169h"],
    ["--limit", "1", "--addresses", "10.0.0.0/33"],
    ["--limit", "1", "--name-pattern", "Mac.*"],
  ])
    expect([flags, (await create(...flags)).code]).toEqual([flags, 2]);
});
