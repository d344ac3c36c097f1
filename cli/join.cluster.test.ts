/** A host is added, joins and is removed; each wrong token and server has its own error. */
import { randomBytes } from "node:crypto";
import { existsSync } from "node:fs";
import { readFile, stat, writeFile } from "node:fs/promises";
import path from "node:path";
import { expect, test, vi } from "vitest";
import { testAddress } from "../agent/fixtures/agent.ts";
import { credentialSecretName, generationOf } from "../src/api/access/roles.ts";
import { NAMESPACE_HOSTS } from "../src/api/group.ts";
import { readTokenClaims } from "../src/kube/token.ts";
import {
  isRoot,
  PATIENT,
  prepareReleases,
  runProgram as runOnMachine,
  STATE,
  startMachine,
} from "../test/bed/launchd/machine.ts";
import { M4_MAX, startReplay } from "../test/bed/replay.ts";
import { until } from "../test/bed/until.ts";
import { runProgram } from "../test/cli/program.ts";
import { oneCluster, sharedCluster } from "../test/cluster/cluster.ts";
import { program as llamaServer } from "../test/fixtures/started-llama-server.ts";
import { temporaryFolder } from "../test/fixtures/temporary-folder.ts";
import { signToken } from "../test/security/signed-token.ts";

const { kubeconfig, kubectl } = sharedCluster();
const otherCluster = oneCluster();

interface Joining extends AsyncDisposable {
  readonly host: string;
  readonly stateDir: string;
  /** The arguments that `host add` prints. */
  readonly add: (...more: string[]) => Promise<readonly string[]>;
  readonly join: (
    args: readonly string[],
    env?: Readonly<Record<string, string>>,
    /** The folder's name. */
    state?: string,
  ) => ReturnType<typeof runProgram>;
}

async function joining(cluster = { kubeconfig, kubectl }): Promise<Joining> {
  const folder = await temporaryFolder();
  const host = `mini-${randomBytes(4).toString("hex")}`;
  const stateDir = path.join(folder.path, "state");
  return {
    host,
    stateDir,
    add: async (...more) => {
      const { code, stdout, stderr } = await runProgram(["host", "add", host, ...more], cluster);
      expect({ code, stderr }).toMatchObject({ code: 0 });
      const [program, ...args] = stdout.trim().split(" ");
      expect(program).toBe("metalbridge");
      return args;
    },
    join: (args, env = {}, state = "state") => {
      const engine = ["--llama-server", llamaServer ?? "/nonexistent", "--address", testAddress()];
      return runProgram([...args, "--state-dir", path.join(folder.path, state), ...engine], { env });
    },
    [Symbol.asyncDispose]: async () => {
      await runProgram(["host", "remove", host, "--yes"], cluster);
      await folder[Symbol.asyncDispose]();
    },
  };
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
    const asHost = (...args: string[]) => kubectl([...args, `--kubeconfig=${file}`]);
    expect(await asHost("auth", "whoami", "-o", "jsonpath={.status.userInfo.username}")).toBe(
      `system:serviceaccount:${NAMESPACE_HOSTS}:${host}`,
    );
    await asHost("get", "lease", host, "-n", NAMESPACE_HOSTS);
    // The API server remembers for some seconds that it accepted a token.
    const again = await vi.waitFor(
      async () => {
        const second = await mini.join(command);
        expect(second.code).toBe(1);
        return second;
      },
      { timeout: 60_000, interval: 500 },
    );
    expect(again.stderr).toMatch(/^JoinTokenRefused: the token of host \S+ is refused: /);
    const removed = await runProgram(["host", "remove", host, "--yes"], { kubeconfig });
    expect(removed.code).toBe(0);
    expect(removed.stdout).toContain(`ServiceAccount ${host}`);
    await vi.waitFor(
      () =>
        expect(asHost("get", "hosts.metalbridge.dev")).rejects.toThrow(/forbidden|Unauthorized|logged in/i),
      {
        timeout: 60_000,
        interval: 100,
      },
    );
    const left = await kubectl([
      "get",
      "sa,role,rolebinding,lease,secret",
      "-n",
      NAMESPACE_HOSTS,
      "-o",
      "name",
    ]);
    expect(left).not.toContain(host);
    const wide = await kubectl(["get", "clusterrolebindings,hosts.metalbridge.dev", "-o", "name"]);
    expect(wide).not.toContain(host);
    const twice = await runProgram(["host", "remove", host, "--yes"], { kubeconfig });
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
  const addresses = await kubectl(["get", "host", mini.host, "-o", "jsonpath={.spec.addresses}"]);
  expect(addresses).toBe('["192.168.7.0/24"]');
});

test.skipIf(llamaServer === undefined)(
  "of two machines that join with one token at the same moment, one joins, and the other stores nothing",
  async () => {
    await using mini = await joining();
    const command = await mini.add("--address", testAddress());
    const joined = await Promise.all(["one", "other"].map((state) => mini.join(command, {}, state)));
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
    const mint = (...bound: readonly string[]) =>
      kubectl([
        "create",
        "token",
        host,
        "-n",
        NAMESPACE_HOSTS,
        "--duration=720h",
        `--token=${token}`,
        ...bound,
      ]);
    const generation = generationOf(host, readTokenClaims(token)?.secret ?? "") ?? "";
    await expect(mint()).rejects.toThrow(/must be bound to the Secret/);
    const secret = credentialSecretName(host, generation);
    const stolen = (await mint("--bound-object-kind=Secret", `--bound-object-name=${secret}`)).trim();
    expect(await mini.join(command)).toMatchObject({ code: 0 });
    const asThief = () => kubectl(["get", "hosts.metalbridge.dev", `--token=${stolen}`]);
    await asThief();
    const again = await mini.add();
    await vi.waitFor(() => expect(asThief()).rejects.toThrow(/Unauthorized|logged in/i), {
      timeout: 60_000,
      interval: 500,
    });
    expect(await mini.join(again)).toMatchObject({ code: 0 });
  },
);

test("several hosts are added at once, each with its own command", async () => {
  const names = ["a", "b"].map((letter) => `many-${letter}-${randomBytes(3).toString("hex")}`);
  const [one = "", two = ""] = names;
  const args = ["host", "add", `${one}=192.168.9.1,192.168.9.2`, two, "--address", "192.168.9.3"];
  const { code, stdout } = await runProgram([...args, "--output", "json"], { kubeconfig });
  expect(code).toBe(0);
  const added: readonly Record<string, string>[] = JSON.parse(stdout);
  expect(added.map(({ host }) => host)).toEqual(names);
  for (const { host, token = "", command } of added) {
    expect(readTokenClaims(token)?.host).toBe(host);
    expect(command).toMatch(/^metalbridge join --server https:\/\//);
  }
  const addresses = (name: string) =>
    kubectl(["get", "host", name, "-o", "jsonpath={.spec.addresses}"]).then((text) => JSON.parse(text));
  expect(await Promise.all(names.map(addresses))).toEqual([["192.168.9.1", "192.168.9.2"], ["192.168.9.3"]]);
  for (const name of names) await runProgram(["host", "remove", name, "--yes"], { kubeconfig });
});

test("a host that was set up by hand keeps its account, and loses what its old bindings granted beyond its own", async () => {
  await using mini = await joining();
  const name = `metalbridge-agent-${mini.host}`;
  const account = [`--serviceaccount=${NAMESPACE_HOSTS}:${mini.host}`];
  await kubectl(["create", "serviceaccount", mini.host, "-n", NAMESPACE_HOSTS]);
  await kubectl(["create", "rolebinding", name, "--clusterrole=edit", ...account, "-n", NAMESPACE_HOSTS]);
  await kubectl(["create", "clusterrolebinding", name, "--clusterrole=edit", ...account]);
  const token = (await kubectl(["create", "token", mini.host, "-n", NAMESPACE_HOSTS])).trim();
  const may = (...what: string[]) =>
    kubectl(["auth", "can-i", ...what, `--token=${token}`]).then(
      () => true,
      () => false,
    );
  const secrets = ["get", "secrets", "-n", NAMESPACE_HOSTS];
  await vi.waitFor(async () => expect(await may(...secrets)).toBe(true), 60_000);
  await mini.add("--address", testAddress());
  await vi.waitFor(async () => expect(await may(...secrets)).toBe(false), 60_000);
  // The token that its agent has still works, for what is the host's own.
  await until(async () => {
    expect(await may("update", `leases/${mini.host}`, "-n", NAMESPACE_HOSTS)).toBe(true);
    expect(await may("patch", "hosts.metalbridge.dev", "--subresource=status")).toBe(true);
  });
});

test("a new host without an address is refused before anything is made", async () => {
  const { stderr, code } = await runProgram(["host", "add", "mini-none"], { kubeconfig });
  expect(code).toBe(1);
  expect(stderr).toMatch(/^HostAddressesNeeded: there is no Host mini-none yet/);
});

test("nothing is issued where the policies are missing", async () => {
  const cluster = otherCluster();
  await cluster.kubectl(["delete", "validatingadmissionpolicybinding", "metalbridge-host-leases"]);
  const { stderr } = await runProgram(["host", "add", "mini-1", "--address", "192.168.1.2"], cluster);
  expect(stderr).toMatch(/^HostPoliciesMissing: missing: admission policy metalbridge-host-leases/);
});

test("a token that has expired says when", async () => {
  await using mini = await joining();
  const command = await mini.add("--address", testAddress());
  const secret = readTokenClaims(flagOf(command, "--token"))?.secret ?? "";
  const times = { issued: 7_200, expires: -3_600 };
  const token = await signToken({ kubeconfig, kubectl }, mini.host, { ...times, secret });
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
  const other = (await kubectl(["create", "token", "default", "-n", "default"]).catch(() => "")).trim();
  if (other !== "")
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
  const late = await mini.join(command, {
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
