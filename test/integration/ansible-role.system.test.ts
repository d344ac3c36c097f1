/** The example role of Ansible as an administrator runs it: over ssh, on Linux hosts with a network of their own, and a real control plane. */
import { execFile } from "node:child_process";
import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import path from "node:path";
import { afterAll, beforeAll, expect, it } from "vitest";
import { parse } from "yaml";
import { packageRoot } from "../../local/package-root.ts";
import { findAnsible } from "../../scripts/setup/python-programs.mjs";
import type { Host } from "../../src/api/host.ts";
import { HOSTS } from "../../src/api/kinds.ts";
import { describeUnless } from "../bed/describe-unless.ts";
import { forwardTcp } from "../bed/forward-tcp.ts";
import { archiveOf, prepareReleases, sumOf } from "../bed/launchd/machine.ts";
import { replayCommands } from "../bed/launchd/replayed-commands.ts";
import { type LinuxHost, startLinuxHost } from "../bed/linux-host.ts";
import { openNetwork, whyNoNetwork } from "../bed/network.ts";
import { type SshServers, startSshServers, whyNoSshServer } from "../bed/ssh-servers.ts";
import { startFleet, type TestFleet } from "../bed/test-fleet.ts";
import { runVerb } from "../cli/program.ts";
import { startCluster } from "../cluster/cluster.ts";
import { packRealEngine, whyNoEngineArchive } from "../fixtures/engine-archive.ts";
import { temporaryFolder } from "../fixtures/temporary-folder.ts";

const playbook = findAnsible();
const whyNot =
  whyNoNetwork() ??
  whyNoSshServer() ??
  whyNoEngineArchive ??
  (playbook === undefined ? "there is no ansible-playbook: npm run setup -- --for test" : undefined);
const folder = path.join(packageRoot(), "examples", "mac-fleet");
const NAMES = ["linux-01", "linux-02", "linux-03"];
const WRONG = "0".repeat(64);

interface Counts {
  readonly ok: number;
  readonly changed: number;
  readonly unreachable: number;
  readonly failed: number;
}

interface Played {
  readonly code: number;
  readonly out: string;
  readonly recap: Readonly<Record<string, Counts>>;
}

describeUnless(whyNot, "the Ansible role", () => {
  const stack = new AsyncDisposableStack();
  let farm: TestFleet;
  let ssh: SshServers;
  let play: (vars: object, ...args: readonly string[]) => Promise<Played>;
  const hosts = new Map<string, LinuxHost>();
  const archives: Record<string, string> = {};

  beforeAll(async () => {
    const [cluster, network, releases, scratch] = await Promise.all([
      startCluster({ controllerManager: true }),
      openNetwork(NAMES),
      prepareReleases(),
      temporaryFolder(),
    ]);
    for (const part of [scratch, releases, network, cluster]) stack.use(part);
    const at = (name: string) => path.join(scratch.path, name);
    const { kubeconfig } = cluster;
    farm = stack.use(await startFleet({ kubeconfig, agents: [] }));
    // The API server listens on loopback, and its certificate names it kubernetes.
    const server = new URL(parse(readFileSync(kubeconfig, "utf8")).clusters[0].cluster.server);
    const to = { host: server.hostname, port: Number(server.port) };
    const forward = await forwardTcp({ listen: network.gateway, to });
    stack.defer(forward.close);
    for (const name of NAMES)
      hosts.set(
        name,
        stack.use(await startLinuxHost(network.station(name), [`${network.gateway} kubernetes`])),
      );
    ssh = stack.use(
      await startSshServers(
        [...hosts.values()].map(({ name, shell, at: own }) => ({
          name,
          shell,
          address: network.gateway,
          home: own("root"),
        })),
      ),
    );
    const [one, two] = ["1.0.0", "1.1.0"].map((version) => releases.make(version, { platform: "linux" }));
    if (one === undefined || two === undefined) throw new Error("no releases");
    archives.one = archiveOf(one, at("one.tar.gz"));
    archives.two = archiveOf(two, at("two.tar.gz"));
    archives.engine = at("engine.tar.gz");
    const engineSum = packRealEngine(archives.engine);
    const shared = {
      metalbridge_command: path.join(one, "bin", "metalbridge"),
      metalbridge_cluster_flags: ["--kubeconfig", kubeconfig],
      metalbridge_server: `https://kubernetes:${forward.port}`,
      metalbridge_engine_archive: archives.engine,
      metalbridge_engine_sha256: engineSum,
      // Who logs in as root needs no sudo.
      ansible_user: "root",
      ansible_ssh_executable: ssh.ssh,
      ansible_ssh_transfer_method: "piped",
      ansible_python_interpreter: "/usr/bin/python3",
    };
    // One joins by the token of a group, the others by tokens of their own.
    const group = await tokenOfGroup(network.cidr, shared);
    const members = [...hosts.values()].map(({ name, address }) => [
      name,
      { metalbridge_address: address, ansible_host: name, ...(name === "linux-02" ? group : {}) },
    ]);
    writeFileSync(
      at("inventory.json"),
      JSON.stringify({ metalbridge: { hosts: Object.fromEntries(members), vars: shared } }),
    );
    // Its control sockets have short paths, and it finds no configuration of a user.
    const env = {
      PATH: process.env.PATH,
      HOME: at("home"),
      ANSIBLE_HOME: at("ansible"),
      ANSIBLE_FORKS: "3",
      ANSIBLE_PIPELINING: "1",
      ANSIBLE_NOCOLOR: "1",
      ANSIBLE_SSH_CONTROL_PATH_DIR: at("cp"),
      LANG: "C.UTF-8",
    };
    for (const name of ["home", "ansible", "cp"]) mkdirSync(at(name));
    play = (vars, ...args) =>
      run(
        [
          path.join(folder, "playbook.yaml"),
          "-i",
          at("inventory.json"),
          "-e",
          JSON.stringify({ metalbridge_serial: NAMES.length, ...vars }),
          ...args,
        ],
        env,
      );
  }, 300_000);

  afterAll(() => stack.disposeAsync(), 120_000);

  const host = (name: string): LinuxHost => {
    const found = hosts.get(name);
    if (found === undefined) throw new Error(`there is no ${name}`);
    return found;
  };
  const versions = async () => {
    const known = await farm.objects.list(HOSTS);
    return Object.fromEntries(
      known.map(({ metadata, status }: Host) => [metadata.name, status?.info?.agentVersion]),
    );
  };
  const release = (name: string, sum = sumOf(archives[name] ?? "")) => ({
    metalbridge_version: name === "one" ? "1.0.0" : "1.1.0",
    metalbridge_archive: archives[name],
    metalbridge_release_sha256: sum,
  });

  it("the role passes Ansible's syntax check", async () => {
    expect(await play(release("one"), "--syntax-check")).toMatchObject({ code: 0 });
  });

  it("installs, brings the engine and joins; a host with another release than promised fails alone", async () => {
    const sums = `{{ '${WRONG}' if inventory_hostname == 'linux-03' else '${sumOf(archives.one ?? "")}' }}`;
    const { code, recap, out } = await play(release("one", sums));
    expect(recap, out).toMatchObject({
      "linux-01": { failed: 0, unreachable: 0 },
      "linux-02": { failed: 0, unreachable: 0 },
      "linux-03": { failed: 1, unreachable: 0 },
    });
    expect(code).toBe(2);
    expect(out.replaceAll(/\s+/g, " ")).toContain(
      `has the SHA-256 ${sumOf(archives.one ?? "")}, not ${WRONG}. Nothing was installed on linux-03.`,
    );
    expect(existsSync(host("linux-03").at("usr/local/bin"))).toBe(false);
    const known = await farm.objects.until("", "hosts.metalbridge.dev", (all) => {
      const ready = expect.objectContaining({ type: "Ready", status: "True" });
      for (const { status } of all) expect(status?.conditions).toContainEqual(ready);
      return all;
    });
    expect(known.map(({ metadata }: Host) => metadata.name).sort()).toEqual(["linux-01", "linux-02"]);
    for (const { status } of known as readonly Host[])
      expect(status?.runtimes).toMatchObject([
        { name: "llamacpp", path: "/usr/local/lib/metalbridge/engines/llamacpp/current/llama-server" },
      ]);
  });

  it("changes nothing the second time, and reports in check mode what a new release would change", async () => {
    const again = await play(release("one"), "--limit", "linux-01,linux-02");
    expect(again.recap, again.out).toMatchObject({
      "linux-01": { changed: 0, failed: 0 },
      "linux-02": { changed: 0, failed: 0 },
    });
    const checked = await play(release("two"), "--check", "--limit", "linux-01");
    expect(checked.recap, checked.out).toMatchObject({ "linux-01": { failed: 0 } });
    expect(checked.recap["linux-01"]?.changed).toBeGreaterThan(0);
    expect(await versions()).toEqual({ "linux-01": "1.0.0", "linux-02": "1.0.0" });
  });

  it("drains a host, upgrades it and lets replicas come back", async () => {
    const { recap, out } = await play({ ...release("two"), metalbridge_drain: true }, "--limit", "linux-01");
    expect(recap, out).toMatchObject({ "linux-01": { failed: 0 } });
    const changed = (task: string) => `${task}\\] .*\\nchanged: \\[linux-01[^]*`;
    const order = [
      "Move the replicas to other hosts",
      "Install or upgrade the agent",
      "Let replicas come back",
    ];
    expect(out).toMatch(new RegExp(order.map(changed).join("")));
    const { spec } = await farm.objects.until("", "hosts.metalbridge.dev/linux-01", (found) => {
      expect(found.status.info.agentVersion).toBe("1.1.0");
      return found;
    });
    expect(spec).toMatchObject({ drain: false, unschedulable: false });
  });
});

it.skipIf(playbook === undefined)(
  "changes the power settings that a Mac has and that differ, once",
  async () => {
    // As recorded, of a Mac that has no powernap.
    const settings = new Map([
      ["SleepDisabled", "0"],
      ["autorestart", "1"],
      ["sleep", "1"],
    ]);
    const names = new Map([["disablesleep", "SleepDisabled"]]);
    await using pmset = await replayCommands({
      pmset: ({ args: [flag, name = "", value = ""] }) => {
        if (flag === "-a") settings.set(names.get(name) ?? name, value);
        return { out: [...settings].map((one) => ` ${one.join("\t\t")}\n`).join("") };
      },
    });
    await using scratch = await temporaryFolder();
    const at = (name: string) => path.join(scratch.path, name);
    const tasks = path.join(folder, "roles/metalbridge_host/tasks/power.yaml");
    const local = {
      hosts: "localhost",
      connection: "local",
      gather_facts: false,
      vars: { ansible_python_interpreter: "{{ ansible_playbook_python }}" },
    };
    writeFileSync(at("play.yaml"), JSON.stringify([{ ...local, tasks: [{ include_tasks: tasks }] }]));
    const env = { PATH: `${pmset.bin}:${process.env.PATH}`, HOME: scratch.path, LANG: "C.UTF-8" };
    const first = await run([at("play.yaml"), "-i", "localhost,"], env);
    expect(first.recap, first.out).toMatchObject({ localhost: { changed: 1, failed: 0 } });
    expect(pmset.calls).toEqual(["pmset -g", "pmset -a sleep 0", "pmset -a disablesleep 1"]);
    const again = await run([at("play.yaml"), "-i", "localhost,"], env);
    expect(again.recap, again.out).toMatchObject({ localhost: { changed: 0, failed: 0 } });
  },
);

async function tokenOfGroup(
  cidr: string,
  {
    metalbridge_cluster_flags,
    metalbridge_server,
  }: {
    readonly metalbridge_cluster_flags: readonly string[];
    readonly metalbridge_server: string;
  },
) {
  const limits = ["--group", "farm", "--limit", "5", "--approve", "auto", "--addresses", cidr];
  const command = ["host", "token", "create", ...limits, "--server", metalbridge_server, "--output", "json"];
  const { stdout } = await runVerb([...command, ...metalbridge_cluster_flags]);
  const { token, caData } = JSON.parse(stdout);
  return { metalbridge_join_token: token, metalbridge_ca_data: caData };
}

function run(args: readonly string[], env: Readonly<Record<string, string | undefined>>): Promise<Played> {
  return new Promise((resolve) => {
    execFile(playbook ?? "", [...args], { env, cwd: folder, maxBuffer: 16 << 20 }, (error, out, err) => {
      const lines = [...out.matchAll(/^(\S+) +: (ok=.*)$/gm)];
      const recap = lines.map(([, name = "", counts = ""]) => [
        name,
        Object.fromEntries(
          [...counts.matchAll(/(\w+)=(\d+)/g)].map(([, key, count]) => [key, Number(count)]),
        ),
      ]);
      const code = error === null ? 0 : Number(error.code);
      resolve({ code, out: out + err, recap: Object.fromEntries(recap) });
    });
  });
}
