/** An upgrade of several hosts as an administrator runs it: over ssh, on the real control plane, under load. */
import { chmodSync, existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import path from "node:path";
import { afterAll, beforeAll, expect, it } from "vitest";
import type { Host } from "../../src/api/host.ts";
import type { InferenceReplica } from "../../src/api/inference-replica.ts";
import { HOSTS, INFERENCE_REPLICAS } from "../../src/api/kinds.ts";
import { describeUnless } from "../bed/describe-unless.ts";
import { killEngines, livingEngines } from "../bed/engines.ts";
import { type MacHost, openMacHost } from "../bed/launchd/mac-host.ts";
import {
  archiveOf,
  type Machine,
  prepareReleases,
  type Ran,
  type Releases,
  startMachine,
} from "../bed/launchd/machine.ts";
import { allKinds, type Clients, lostOf, startClients } from "../bed/load/clients.ts";
import { whyNoNodeNetwork } from "../bed/node-network.ts";
import { type PacedEngine, pacedTokens, paceEngine } from "../bed/pace.ts";
import { type SshServers, startSshServers, whyNoSshServer } from "../bed/ssh-servers.ts";
import { type System, startSystem } from "../bed/system.ts";
import { startProgram } from "../cli/program.ts";
import { writeTinyGguf } from "../fixtures/tiny-gguf.ts";

const NAMES = ["mini-1", "mini-2", "mini-3", "mini-4"];

interface Member {
  readonly name: string;
  readonly machine: Machine;
  readonly mac: MacHost;
}

describeUnless(whyNoNodeNetwork() ?? whyNoSshServer(), "an upgrade of several hosts", () => {
  let on: System;
  let releases: Releases;
  let ssh: SshServers;
  let clients: Clients;
  let engine: PacedEngine;
  const members: Member[] = [];

  beforeAll(async () => {
    [on, releases] = await Promise.all([startSystem({ agents: [] }), prepareReleases()]);
    const { kubeconfig, modelsDir } = on.farm;
    const release = releases.make("1.0.0", { platform: "linux" });
    const address = on.network.hostAddress;
    engine = paceEngine(path.join(on.farm.dir, "engine"));
    const { program: llamaServer } = engine;
    await Promise.all(
      NAMES.map(async (name) => {
        const machine = await startMachine({ platform: "linux" });
        const mac = openMacHost({ machine, kubeconfig, name, address, modelsDir, release, llamaServer });
        members.push({ name, machine, mac });
        expect(await mac.install()).toMatchObject({ code: 0 });
        expect(await mac.join(await mac.add())).toMatchObject({ code: 0 });
      }),
    );
    ssh = await startSshServers(
      members.map(({ name, machine }) => ({
        name,
        address,
        home: machine.at("root"),
        shell: shellOf(machine),
      })),
    );
    await writeTinyGguf(path.join(modelsDir, "chat.gguf"));
    await on.farm.objects.until("", "mbhost", (hosts) => {
      const ready = expect.objectContaining({ type: "Ready", status: "True" });
      for (const { status } of hosts) expect(status?.conditions).toContainEqual(ready);
    });
    const placement = { spread: "Required" };
    await on.services.applyService("chat", "chat.gguf", { replicas: 2, parallelSlots: 2, placement });
    await on.services.untilReady("chat");
    const url = `http://${await on.services.clusterIp("chat")}:8080`;
    clients = startClients(on.network.namespace, { url, clients: allKinds(pacedTokens) });
    await clients.untilEachAsked(1);
  }, 300_000);

  afterAll(async () => {
    await clients?.[Symbol.asyncDispose]();
    for (const { mac, machine } of members) {
      await machine.systemd.stopAll();
      killEngines(mac.stateDir);
      await machine[Symbol.asyncDispose]();
    }
    await engine?.[Symbol.asyncDispose]();
    await ssh?.[Symbol.asyncDispose]();
    await releases?.[Symbol.asyncDispose]();
    await on?.[Symbol.asyncDispose]();
  });

  const start = (...args: readonly string[]) =>
    startProgram(["upgrade", ...args, "--ssh-program", ssh.ssh], { kubeconfig: on.farm.kubeconfig });
  const upgrade = async (...args: readonly string[]): Promise<Ran> => {
    const { code, stdout: out, stderr: err } = await start(...args).ended;
    return { code: code ?? -1, out, err };
  };
  const member = (name: string): Member => {
    const found = members.find((one) => one.name === name);
    if (found === undefined) throw new Error(`there is no ${name}`);
    return found;
  };
  const engines = () => members.flatMap(({ mac }) => [...livingEngines(mac.stateDir).keys()]).sort();
  const versions = async () => {
    const hosts = await on.farm.objects.list(HOSTS);
    const known = hosts.map(({ metadata, status }: Host) => [metadata.name, status?.info?.agentVersion]);
    return Object.fromEntries(known) as Readonly<Record<string, string>>;
  };
  /** In the order of the upgrade: those that serve nothing first. */
  const order = async (): Promise<readonly string[]> => {
    const replicas = await on.farm.objects.list(INFERENCE_REPLICAS);
    const serving = replicas.map(({ spec }: InferenceReplica) => spec.template.hostName).sort();
    expect(new Set(serving).size).toBe(2);
    return [...NAMES.filter((name) => !serving.includes(name)), ...serving];
  };

  it("stops at the third host, which is rolled back; the fourth is untouched, and a second run continues", async () => {
    const [first = "", second = "", third = "", fourth = ""] = await order();
    const archive = archiveFor(releases, "1.1.0");
    const before = engines();
    expect(before).toHaveLength(2);
    writeFileSync(member(third).machine.at("broken"), "");

    const stopped = await upgrade("--all", "--archive", archive, "--batch", "1", "--timeout-seconds", "20");
    expect(stopped.err).toMatch(
      new RegExp(`^UpgradeStopped: 2 of 4 hosts run 1.1.0; ${third}, step upgrade: UpgradeRolledBack: `),
    );
    expect(stopped.code).toBe(1);
    expect(tableOf(stopped.out)).toEqual({
      [first]: "upgraded",
      [second]: "upgraded",
      [third]: "failed",
      [fourth]: "not started",
    });
    expect(await versions()).toEqual({
      [first]: "1.1.0",
      [second]: "1.1.0",
      [third]: "1.0.0",
      [fourth]: "1.0.0",
    });

    rmSync(member(third).machine.at("broken"));
    const plan = JSON.parse((await upgrade("--all", "--archive", archive, "--dry-run", "-o", "json")).out);
    // Never both hosts of the service together.
    expect(plan.batches.map((batch: readonly { host: string }[]) => batch.map(({ host }) => host))).toEqual([
      [third],
      [fourth],
    ]);
    const continued = await upgrade("--all", "--archive", archive);
    expect(continued).toMatchObject({ code: 0, err: "" });
    expect(tableOf(continued.out)).toEqual({
      [first]: "current",
      [second]: "current",
      [third]: "upgraded",
      [fourth]: "upgraded",
    });

    expect(engines()).toEqual(before);
    await clients.untilEachAsked(1);
    expect(lostOf(clients.asked)).toEqual([]);
    for (const { machine } of members) expect(readdirSync(machine.at("root"))).toEqual([]);
  }, 300_000);

  it("says what to do where sudo wants a password, and where ssh does not get in", async () => {
    const [first = "", second = ""] = await order();
    const { machine } = member(first);
    const archive = archiveFor(releases, "1.2.0");
    const sudo = readFileSync(path.join(machine.bin, "sudo"), "utf8");
    writeFileSync(
      path.join(machine.bin, "sudo"),
      "#!/bin/sh\necho 'sudo: a password is required' >&2\nexit 1\n",
    );
    const refused = await upgrade("--hosts", `${first},${second}`, "--archive", archive);
    expect(refused.err).toMatch(
      new RegExp(`${first}, step connect: SudoRefused: sudo: a password is required`),
    );
    writeFileSync(path.join(machine.bin, "sudo"), sudo);
    const unknown = await upgrade("--hosts", first, "--archive", archive, "--ssh-option", "Port=1");
    expect(unknown.err).toMatch(new RegExp(`${first}, step connect: SshFailed: .*refused`));
    expect((await versions())[first]).toBe("1.1.0");
  });

  it("finishes the host in hand after Ctrl-C, and starts no other", async () => {
    const [first = "", second = ""] = await order();
    const archive = archiveFor(releases, "1.2.0");
    await using program = start("--hosts", `${second},${first}`, "--archive", archive);
    await program.until(new RegExp(`${first}: copying`));
    program.child.kill("SIGINT");
    const { code, stdout } = await program.ended;
    expect(code).toBe(130);
    expect(tableOf(stdout)).toEqual({ [first]: "upgraded", [second]: "not started" });
  });

  it("drains a host before, and uncordons it after", async () => {
    const [, , third = ""] = await order();
    const archive = archiveFor(releases, "1.2.0");
    const drained = await upgrade("--hosts", third, "--archive", archive, "--drain");
    expect(drained).toMatchObject({ code: 0, err: "" });
    expect(livingEngines(member(third).mac.stateDir).size).toBe(0);
    expect((await on.farm.objects.read(HOSTS, third)).spec).toMatchObject({
      unschedulable: false,
      drain: false,
    });
    expect((await versions())[third]).toBe("1.2.0");
    await clients.untilEachAsked(1);
    expect(lostOf(clients.asked)).toEqual([]);
  });
});

const made = new Map<string, string>();

/** Its agent does not start on a machine that has the file /broken. */
function archiveFor(releases: Releases, version: string): string {
  const known = made.get(version);
  if (known !== undefined) return known;
  const usual = releases.make(version, { platform: "linux" });
  const program = readFileSync(path.join(usual, "cli", "metalbridge.mjs"), "utf8");
  const check = [
    'import { existsSync as isThere } from "node:fs";',
    'const broken = new URL("../../../../../../../broken", import.meta.url);',
    'if (process.argv[2] === "agent" && isThere(broken)) process.exit(3);',
  ];
  const [head = "", ...rest] = program.split("\n");
  const release = releases.make(version, {
    platform: "linux",
    hasBundle: true,
    program: [head, ...check, ...rest].join("\n"),
  });
  const archive = archiveOf(release, `${release}.tar.gz`);
  made.set(version, archive);
  return archive;
}

/** What a command that came by ssh runs in: the machine's programs, and its paths for the installation. */
function shellOf({ root, bin }: Machine): string {
  const shell = path.join(root, "shell");
  const place = `s|bin/metalbridge upgrade|& --root ${root} --platform linux|`;
  const lines = [
    "#!/bin/sh",
    `command=$(printf %s "$SSH_ORIGINAL_COMMAND" | sed '${place}')`,
    `exec env -i PATH=${bin}:/usr/bin:/bin HOME=/ sh -c "$command"`,
  ];
  writeFileSync(shell, `${lines.join("\n")}\n`);
  chmodSync(shell, 0o755);
  const sudo = path.join(bin, "sudo");
  writeFileSync(sudo, '#!/bin/sh\n[ "$1" = -n ] && shift\nexec "$@"\n');
  chmodSync(sudo, 0o755);
  if (!existsSync(path.join(root, "root"))) mkdirSync(path.join(root, "root"), { mode: 0o700 });
  return shell;
}

/** State by host. */
function tableOf(out: string): Readonly<Record<string, string>> {
  const rows = [
    ...out.matchAll(/^(mini-\d) {2,}(upgraded|failed|not started|current|unreachable|unknown) /gm),
  ];
  return Object.fromEntries(rows.map(([, host = "", state = ""]) => [host, state]));
}
