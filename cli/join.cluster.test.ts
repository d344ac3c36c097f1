/** A host is added, joins and is removed; each wrong token and server has its own error. */
import { randomBytes } from "node:crypto";
import { existsSync } from "node:fs";
import { readFile, stat, writeFile } from "node:fs/promises";
import path from "node:path";
import { expect, test } from "vitest";
import { testAddress } from "../agent/fixtures/agent.ts";
import { credentialSecretName, generationOf } from "../src/api/access/roles.ts";
import { NAMESPACE_HOSTS } from "../src/api/group.ts";
import { readTokenClaims } from "../src/kube/token.ts";
import type { KubeObject } from "../src/kube/types.ts";
import { writeTokenKubeconfig } from "../test/bed/identity.ts";
import {
  isRoot,
  PATIENT,
  prepareReleases,
  runProgram as runOnMachine,
  STATE,
  startMachine,
} from "../test/bed/launchd/machine.ts";
import { type Objects, objectsOf } from "../test/bed/objects.ts";
import { M4_MAX, startReplay } from "../test/bed/replay.ts";
import { until } from "../test/bed/until.ts";
import { type ProgramEnd, runProgram, runVerb } from "../test/cli/program.ts";
import { oneCluster, sharedCluster } from "../test/cluster/cluster.ts";
import { program as llamaServer } from "../test/fixtures/started-llama-server.ts";
import { temporaryFolder } from "../test/fixtures/temporary-folder.ts";
import { signToken } from "../test/security/signed-token.ts";

const { kubeconfig, objects } = sharedCluster();
const otherCluster = oneCluster();

interface Joining extends AsyncDisposable {
  readonly host: string;
  readonly stateDir: string;
  /** The arguments that `host add` prints. */
  readonly add: (...more: string[]) => Promise<readonly string[]>;
  readonly join: (args: readonly string[]) => Promise<ProgramEnd>;
  /** The same as a process of its own. */
  readonly joinApart: (
    args: readonly string[],
    /** The folder's name. */
    state?: string,
    env?: Readonly<Record<string, string>>,
  ) => Promise<ProgramEnd>;
  /** The cluster with a token of the host. */
  readonly as: (token: string) => Promise<Objects>;
}

async function joining(cluster = { kubeconfig }): Promise<Joining> {
  const folder = await temporaryFolder();
  const host = `mini-${randomBytes(4).toString("hex")}`;
  const stateDir = path.join(folder.path, "state");
  const engine = ["--llama-server", llamaServer ?? "/nonexistent", "--address", testAddress()];
  return {
    host,
    stateDir,
    add: async (...more) => {
      const { code, stdout, stderr } = await runVerb(["host", "add", host, ...more], cluster);
      expect({ code, stderr }).toMatchObject({ code: 0 });
      const [program, ...args] = stdout.trim().split(" ");
      expect(program).toBe("metalbridge");
      return args;
    },
    join: (args) => runVerb([...args, "--state-dir", stateDir, ...engine]),
    joinApart: (args, state = "state", env = {}) =>
      runProgram([...args, "--state-dir", path.join(folder.path, state), ...engine], { env }),
    as: async (token) => {
      const file = path.join(folder.path, randomBytes(4).toString("hex"));
      await writeTokenKubeconfig(cluster, token, file);
      return objectsOf(file);
    },
    [Symbol.asyncDispose]: async () => {
      await runVerb(["host", "remove", host, "--yes"], cluster);
      await folder[Symbol.asyncDispose]();
    },
  };
}

const whoIs = async (own: Objects): Promise<string> => {
  const review = { apiVersion: "authentication.k8s.io/v1", kind: "SelfSubjectReview", metadata: {} };
  return (await own.create(review)).status.userInfo.username;
};

async function namesOf(...kinds: readonly string[]): Promise<readonly string[]> {
  const lists = await Promise.all(kinds.map((kind) => objects.get(NAMESPACE_HOSTS, kind)));
  return lists.flatMap(({ items }) => items.map(({ metadata }: KubeObject) => metadata.name));
}

/** The text of a flag in a printed command. */
function flagOf(args: readonly string[], flag: string): string {
  return args[args.indexOf(flag) + 1] ?? "";
}

function withValue(args: readonly string[], flag: string, value: string): readonly string[] {
  return args.map((text, index) => (args[index - 1] === flag ? value : text));
}

const REFUSED =
  /^JoinTokenRefused: the token of host \S+ is refused: it is valid until \S+, so it was already used or replaced/;

test.skipIf(llamaServer === undefined)(
  "a host is added, joins once, and is removed with all it could do",
  async () => {
    await using mini = await joining();
    const { host } = mini;
    const command = await mini.add("--address", testAddress());
    const { code, stdout, stderr } = await mini.join(command);
    expect({ code, stderr }).toEqual({ code: 0, stderr: "" });
    expect(stdout).toMatch(/^ok +route .*\nok +clock /);
    expect(stdout).toContain(`this machine has joined as host ${host}`);
    const file = path.join(mini.stateDir, "kubeconfig");
    expect((await stat(file)).mode & 0o777).toBe(0o600);
    expect(await readFile(file, "utf8")).not.toContain(flagOf(command, "--token"));
    using own = objectsOf(file);
    expect(await whoIs(own)).toBe(`system:serviceaccount:${NAMESPACE_HOSTS}:${host}`);
    await own.get(NAMESPACE_HOSTS, `lease/${host}`);
    // The API server remembers for some seconds that it accepted a token.
    const again = await until(
      async () => {
        const second = await mini.join(command);
        expect(second.code).toBe(1);
        return second;
      },
      { everyMs: 500 },
    );
    expect(again.stderr).toMatch(/^JoinTokenRefused: the token of host \S+ is refused: /);
    const removed = await runVerb(["host", "remove", host, "--yes"], { kubeconfig });
    expect(removed.code).toBe(0);
    expect(removed.stdout).toContain(`ServiceAccount ${host}`);
    await until(() => expect(own.get("", "hosts")).rejects.toThrow(/forbidden|Unauthorized/i));
    const kinds = ["serviceaccounts", "roles", "rolebindings", "leases", "secrets"];
    const left = await namesOf(...kinds, "clusterrolebindings", "hosts");
    expect(left).not.toContainEqual(expect.stringContaining(host));
    const twice = await runVerb(["host", "remove", host, "--yes"], { kubeconfig });
    expect(twice.stderr).toMatch(/^HostNotFound: /);
  },
);

test.skipIf(llamaServer === undefined || !isRoot)(
  "on a Mac, what root joins before install is the installed agent's credential",
  async () => {
    await using releases = await prepareReleases();
    await using machine = await startMachine();
    await using mac = await startReplay(M4_MAX);
    await using mini = await joining();
    const command = await mini.add("--address", testAddress());
    const release = releases.make("1.0.0");
    const engine = ["--llama-server", llamaServer ?? "", "--address", testAddress()];
    const env = { PATH: `${machine.bin}:${mac.path}` };
    // Only this shell finds the engine: launchd's agent has a PATH of its own.
    const ofShell = { PATH: `${path.dirname(llamaServer ?? "")}:${env.PATH}` };
    const address = ["--address", testAddress()];
    const unfound = await machine.run(release, [...command, ...address], { env: ofShell });
    expect(unfound.err).toMatch(/^PreflightFailed: .*engine/);
    const hidden = ["-c", 'umask 077; exec "$0" "$@"', path.join(release, "bin", "metalbridge")];
    const place = ["--root", machine.root, "--platform", "darwin"];
    const joined = await runOnMachine("/bin/sh", [...hidden, ...command, ...engine, ...place], { env });
    expect(joined).toMatchObject({ code: 0, err: "" });
    for (const folder of ["usr/local", "usr/local/var"])
      expect((await stat(machine.at(folder))).mode & 0o777).toBe(0o755);
    expect(joined.out).toContain(machine.at(`${STATE}/kubeconfig`));
    expect(await machine.run(release, ["install", ...PATIENT], { env })).toMatchObject({ code: 0, err: "" });
    expect(await stat(machine.at(`${STATE}/kubeconfig`))).toMatchObject({
      uid: 421,
      gid: 421,
      mode: 0o100600,
    });
    expect(machine.read(`${STATE}/kubeconfig`)).toContain(mini.host);
    expect(await machine.service()).toMatchObject({ differing: [] });
  },
);

test("adding a host twice changes nothing but the token, and the first token ends", async () => {
  await using mini = await joining();
  const first = await mini.add("--address", testAddress());
  const second = await mini.add();
  expect(flagOf(second, "--token")).not.toBe(flagOf(first, "--token"));
  expect(withValue(second, "--token", "")).toEqual(withValue(first, "--token", ""));
  // The API server learns by a watch that the Secret of the first one is gone.
  await until(async () => expect((await mini.join(first)).stderr).toMatch(REFUSED));
  await mini.add("--address", "192.168.7.0/24");
  expect((await objects.get("", `host/${mini.host}`)).spec.addresses).toEqual(["192.168.7.0/24"]);
});

test.skipIf(llamaServer === undefined)(
  "of two machines that join with one token at the same moment, one joins, and the other stores nothing",
  async () => {
    await using mini = await joining();
    const command = await mini.add("--address", testAddress());
    const joined = await Promise.all(["one", "other"].map((state) => mini.joinApart(command, state)));
    expect(joined.map(({ code }) => code).sort()).toEqual([0, 1]);
    expect(joined.find(({ code }) => code === 1)?.stderr).toMatch(/^JoinTokenRefused: /);
    const files = ["one", "other"].map((state) => path.join(mini.stateDir, "..", state, "kubeconfig"));
    expect(files.map((file) => existsSync(file)).sort()).toEqual([false, true]);
  },
);

test.skipIf(llamaServer === undefined)(
  "whatever was issued with a stolen join token ends with the next host add",
  async () => {
    await using mini = await joining();
    const { host } = mini;
    const command = await mini.add("--address", testAddress());
    const token = flagOf(command, "--token");
    using withToken = await mini.as(token);
    const seconds = 30 * 24 * 3_600;
    const generation = generationOf(host, readTokenClaims(token)?.secret ?? "") ?? "";
    await expect(withToken.token(NAMESPACE_HOSTS, host, seconds)).rejects.toThrow(
      /must be bound to the Secret/,
    );
    const secret = credentialSecretName(host, generation);
    using thief = await mini.as(await withToken.token(NAMESPACE_HOSTS, host, seconds, secret));
    expect(await mini.join(command)).toMatchObject({ code: 0 });
    await thief.get("", "hosts");
    const again = await mini.add();
    await until(() => expect(thief.get("", "hosts")).rejects.toThrow(/Unauthorized/i));
    expect(await mini.join(again)).toMatchObject({ code: 0 });
  },
);

test("several hosts are added at once, each with its own command", async () => {
  const names = ["a", "b"].map((letter) => `many-${letter}-${randomBytes(3).toString("hex")}`);
  const [one = "", two = ""] = names;
  const args = ["host", "add", `${one}=192.168.9.1,192.168.9.2`, two, "--address", "192.168.9.3"];
  const { code, stdout } = await runVerb([...args, "--output", "json"], { kubeconfig });
  expect(code).toBe(0);
  const added: readonly Record<string, string>[] = JSON.parse(stdout);
  expect(added.map(({ host }) => host)).toEqual(names);
  for (const { host, token = "", command } of added) {
    expect(readTokenClaims(token)?.host).toBe(host);
    expect(command).toMatch(/^metalbridge join --server https:\/\//);
  }
  const addresses = async (name: string) => (await objects.get("", `host/${name}`)).spec.addresses;
  expect(await Promise.all(names.map(addresses))).toEqual([["192.168.9.1", "192.168.9.2"], ["192.168.9.3"]]);
  for (const name of names) await runVerb(["host", "remove", name, "--yes"], { kubeconfig });
});

test("a host that was set up by hand keeps its account, and loses what its old bindings granted beyond its own", async () => {
  await using mini = await joining();
  const name = `metalbridge-agent-${mini.host}`;
  const [rbac, namespace] = ["rbac.authorization.k8s.io", NAMESPACE_HOSTS];
  const account = { apiVersion: "v1", kind: "ServiceAccount", metadata: { name: mini.host, namespace } };
  const binding = (kind: string, metadata: object) => ({
    ...{ apiVersion: `${rbac}/v1`, kind, metadata },
    roleRef: { apiGroup: rbac, kind: "ClusterRole", name: "edit" },
    subjects: [{ kind: "ServiceAccount", name: mini.host, namespace }],
  });
  await objects.create(account);
  await objects.create(binding("RoleBinding", { name, namespace }));
  await objects.create(binding("ClusterRoleBinding", { name }));
  using agent = await mini.as(await objects.token(namespace, mini.host));
  const may = async (resourceAttributes: object): Promise<boolean> => {
    const review = { apiVersion: "authorization.k8s.io/v1", kind: "SelfSubjectAccessReview", metadata: {} };
    return (await agent.create({ ...review, spec: { resourceAttributes } })).status.allowed;
  };
  const secrets = { verb: "get", resource: "secrets", namespace };
  await until(async () => expect(await may(secrets)).toBe(true));
  await mini.add("--address", testAddress());
  await until(async () => expect(await may(secrets)).toBe(false));
  // The token that its agent has still works, for what is the host's own.
  const lease = { group: "coordination.k8s.io", resource: "leases", namespace, name: mini.host };
  const status = { group: "metalbridge.dev", resource: "hosts", subresource: "status" };
  await until(async () => {
    expect(await may({ ...lease, verb: "update" })).toBe(true);
    expect(await may({ ...status, verb: "patch" })).toBe(true);
  });
});

test("a new host without an address is refused before anything is made", async () => {
  const { stderr, code } = await runVerb(["host", "add", "mini-none"], { kubeconfig });
  expect(code).toBe(1);
  expect(stderr).toMatch(/^HostAddressesNeeded: there is no Host mini-none yet/);
});

test("nothing is issued where the policies are missing", async () => {
  const cluster = otherCluster();
  await cluster.objects.remove("", "validatingadmissionpolicybinding/metalbridge-host-leases");
  const { stderr } = await runVerb(["host", "add", "mini-1", "--address", "192.168.1.2"], cluster);
  expect(stderr).toMatch(/^HostPoliciesMissing: missing: admission policy metalbridge-host-leases/);
});

test("a token that has expired says when", async () => {
  await using mini = await joining();
  const command = await mini.add("--address", testAddress());
  const secret = readTokenClaims(flagOf(command, "--token"))?.secret ?? "";
  const times = { issued: 7_200, expires: -3_600 };
  const token = await signToken(sharedCluster(), mini.host, { ...times, secret });
  const { stderr } = await mini.join(withValue(command, "--token", token));
  expect(stderr).toMatch(/^JoinTokenRefused: .* is refused: it expired at 20/);
});

test("a forged token and one that was cut off are refused", async () => {
  await using mini = await joining();
  const command = await mini.add("--address", testAddress());
  const token = flagOf(command, "--token");
  expect((await mini.join(withValue(command, "--token", token.slice(0, 40)))).stderr).toMatch(
    /^JoinTokenInvalid: /,
  );
  const [head, body] = token.split(".");
  const forged = `${head}.${body}.${Buffer.from("no signature").toString("base64url")}`;
  expect((await mini.join(withValue(command, "--token", forged))).stderr).toMatch(REFUSED);
  const metadata = { name: mini.host, namespace: "default" };
  await objects.create({ apiVersion: "v1", kind: "ServiceAccount", metadata });
  const other = await objects.token("default", mini.host);
  await objects.remove("default", `serviceaccount/${mini.host}`);
  expect((await mini.join(withValue(command, "--token", other))).stderr).toMatch(
    /^JoinTokenInvalid: .*not of a host/,
  );
});

test("a token for another host is not used", async () => {
  await using mini = await joining();
  const command = await mini.add("--address", testAddress());
  const flag = await mini.join([...command, "--host-name", "other"]);
  expect(flag.stderr).toMatch(
    /^JoinTokenForAnotherHost: the token is for host mini-\w+, but this machine is configured as host other/,
  );
  await using folder = await temporaryFolder();
  const config = path.join(folder.path, "agent.yaml");
  await writeFile(config, "hostName: another\n");
  expect((await mini.join([...command, "--config", config])).stderr).toMatch(/^JoinTokenForAnotherHost: /);
});

test("a wrong clock fails the preflight, and the token can still be used", async () => {
  await using mini = await joining();
  const command = await mini.add("--address", testAddress());
  const behind = "const now=Date.now;Date.now=()=>now()-36e5";
  const late = await mini.joinApart(command, "state", {
    NODE_OPTIONS: `--import=data:text/javascript,${encodeURIComponent(behind)}`,
  });
  expect(late.stdout).toMatch(
    /^FAILED +clock +ClockSkewed: this machine's clock is 60 min behind the API server's/m,
  );
  expect(late.stderr).toMatch(/^PreflightFailed: .*clock/);
  expect((await mini.join(command)).code).toBe(llamaServer === undefined ? 1 : 0);
});

test("an API server with another certificate authority is not trusted with the token", async () => {
  await using mini = await joining();
  const command = await mini.add("--address", testAddress());
  const { stderr, code } = await mini.join(withValue(command, "--server", otherCluster().url));
  expect(code).toBe(1);
  expect(stderr).toMatch(/^ApiCertificateUntrusted: /);
  expect(stderr).toMatch(
    /certificate authority has changed: ask for a new join command\n +metalbridge host add mini-/,
  );
});

test("a host that cannot serve yet stores nothing", async () => {
  await using mini = await joining();
  const command = await mini.add("--address", "192.168.7.7");
  const { stdout, stderr } = await mini.join(command);
  expect(stdout).toMatch(/^FAILED +address +AddressNotRegistered/m);
  expect(stderr).toMatch(/^PreflightFailed: .*address/);
  await expect(stat(path.join(mini.stateDir, "kubeconfig"))).rejects.toThrow("ENOENT");
});
