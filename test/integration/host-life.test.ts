/**
 * The life of a host, by the commands of its users: the agent as launchd's job, on the real control plane and a real engine.
 *
 * CPU: a whole system, and seven installations and upgrades of a real agent under load.
 */
import { chmodSync, readFileSync, rmSync, statSync } from "node:fs";
import path from "node:path";
import { afterAll, beforeAll, expect, it } from "vitest";
import { LABEL_HOST } from "../../src/api/group.ts";
import { describeUnless } from "../bed/describe-unless.ts";
import { livingEngines } from "../bed/engines.ts";
import { type MacHost, openMacHost } from "../bed/launchd/mac-host.ts";
import {
  archiveOf,
  type Machine,
  PATIENT,
  PLIST,
  PREFIX,
  prepareReleases,
  type Ran,
  type Releases,
  startMachine,
} from "../bed/launchd/machine.ts";
import { processesNaming } from "../bed/leftovers.ts";
import { allKinds, type Clients, lostOf, startClients } from "../bed/load/clients.ts";
import { whyNoNodeNetwork } from "../bed/node-network.ts";
import { type PacedEngine, pacedTokens, paceEngine } from "../bed/pace.ts";
import { type System, startSystem } from "../bed/system.ts";
import { until } from "../bed/until.ts";
import { writeTinyGguf } from "../fixtures/tiny-gguf.ts";

const HOST = "mini-1";
const OF_A_HOST = "hosts.metalbridge.dev,lease,sa,secret,role,rolebinding,clusterrolebinding";

describeUnless(whyNoNodeNetwork(), "the life of a host", () => {
  let on: System;
  let machine: Machine;
  let releases: Releases;
  let engine: PacedEngine;
  let mac: MacHost;
  let clients: Clients;

  beforeAll(async () => {
    [on, machine, releases] = await Promise.all([
      startSystem({ agents: [] }),
      startMachine(),
      prepareReleases(),
    ]);
    const { kubeconfig, modelsDir } = on.farm;
    const release = releases.make("1.0.0");
    const address = on.network.hostAddress;
    engine = paceEngine(path.join(on.farm.dir, "engine"));
    const { program: llamaServer } = engine;
    mac = openMacHost({ machine, kubeconfig, name: HOST, address, modelsDir, release, llamaServer });
    await writeTinyGguf(path.join(modelsDir, "chat.gguf"));
    await on.services.applyService("chat", "chat.gguf", { parallelSlots: 2, rollout: { drainSeconds: 30 } });
  });

  afterAll(async () => {
    await clients?.[Symbol.asyncDispose]();
    await machine?.[Symbol.asyncDispose]();
    await engine?.[Symbol.asyncDispose]();
    await releases?.[Symbol.asyncDispose]();
    await on?.[Symbol.asyncDispose]();
  });

  const ok = (ran: Ran) => expect(ran).toMatchObject({ code: 0, err: "" });
  const engines = () => [...livingEngines(mac.stateDir).values()];

  /** Clients of every kind ask from before to after it, and the engine is the same. */
  async function withoutLoss(move: () => Promise<void>): Promise<void> {
    const before = engines();
    expect(before).toHaveLength(1);
    await move();
    await clients.untilEachAsked(1);
    expect(lostOf(clients.asked)).toEqual([]);
    expect(engines()).toEqual(before);
  }

  it("a host is installed, added and joins, and serves", async () => {
    ok(await mac.install());
    expect(await machine.service()).toMatchObject({ agent: { troubles: ["KubeconfigMissing"] } });
    expect((await mac.join(await mac.add())).out).toContain(`this machine has joined as host ${HOST}`);
    await on.services.untilReady("chat");
    await on.services.chat("chat", { max_tokens: 2 });
    const url = `http://${await on.services.clusterIp("chat")}:8080`;
    clients = startClients(on.network.namespace, { url, clients: allKinds(pacedTokens) });
    await clients.untilEachAsked(1);
  });

  it("an upgrade fails no request, and keeps every engine", async () => {
    await withoutLoss(async () => ok(await machine.run(releases.make("1.1.0"), ["upgrade", ...PATIENT])));
    expect(await machine.service()).toMatchObject({ agent: { version: "1.1.0", troubles: [] }, engines: 1 });
  });

  it("a bad upgrade is rolled back, fails no request, and keeps every engine", async () => {
    const bad = releases.make("2.0.0", { program: "process.exit(3);" });
    const archive = archiveOf(bad, `${bad}.tar.gz`);
    await withoutLoss(async () => {
      const args = ["upgrade", "--archive", archive, ...PATIENT];
      expect((await machine.run(machine.installed, args)).err).toMatch(/^UpgradeRolledBack/);
    });
    expect(await machine.service()).toMatchObject({ current: "1.1.0", agent: { version: "1.1.0" } });
  });

  it("a new credential replaces the old one while the agent runs", async () => {
    const before = readFileSync(mac.credential, "utf8");
    const { pid } = (await machine.service()).agent;
    await withoutLoss(async () => {
      const logged = log().length;
      expect(await mac.join(await mac.add())).toMatchObject({ code: 0 });
      const messages = () =>
        log()
          .slice(logged)
          .map(({ msg }) => msg);
      await until(() => expect(messages()).toContain("the credential was replaced"));
    });
    expect(readFileSync(mac.credential, "utf8")).not.toBe(before);
    expect(await machine.service()).toMatchObject({ agent: { pid, troubles: [] } });
  });

  it("doctor finds a credential that others can read and repairs it; install repairs what is missing of itself", async () => {
    const found = async (...args: string[]) =>
      JSON.parse((await mac.doctor(["-o", "json", "--timeout", "60s", ...args])).out);
    const error = { code: "CredentialReadable", status: "error", isFixable: true };
    await withoutLoss(async () => {
      chmodSync(mac.credential, 0o644);
      expect((await found()).results).toContainEqual(expect.objectContaining(error));
      const repaired = await found("--fix");
      expect(repaired.fixed).toEqual([expect.objectContaining({ code: "CredentialReadable" })]);
      expect(repaired.results).not.toContainEqual(expect.objectContaining(error));
      expect(statSync(mac.credential).mode & 0o777).toBe(0o600);

      ok(await machine.run(machine.installed, ["stop"]));
      for (const lost of [PREFIX, PLIST]) rmSync(machine.at(lost), { recursive: true });
      ok(await mac.install());
    });
    // Just installed, it may still be reading its Host.
    await until(async () =>
      expect(await machine.service()).toMatchObject({ differing: [], agent: { troubles: [] }, engines: 1 }),
    );
  });

  it("uninstall refuses while the engine serves, drains it when asked to, and nothing of the host is left", async () => {
    await clients.stop();
    expect((await machine.run(machine.installed, ["uninstall"])).err).toMatch(/^EnginesRunning/);
    expect(engines()).toHaveLength(1);
    ok(await machine.run(machine.installed, ["uninstall", "--stop-engines", "--purge"]));
    expect(await mac.remove()).toMatchObject({ code: 0 });

    expect(machine.files()).toEqual([machine.at("wanted.yaml")]);
    expect(machine.launchd.labels()).toEqual([]);
    expect(processesNaming(machine.root)).toEqual([]);
    const left = async () => [
      await on.farm.kubectl(["get", "endpointslices", "-A", "-l", `${LABEL_HOST}=${HOST}`, "-o", "name"]),
      await on.farm.kubectl(["get", "irep", "-A", "-o", "name"]),
      (await on.farm.kubectl(["get", OF_A_HOST, "-A", "-o", "name"])).match(/.*mini-1.*/g),
    ];
    await until(async () => expect(await left()).toEqual(["", "", null]), { everyMs: 1_000 });
  });

  function log(): readonly { readonly msg: string; readonly time: string }[] {
    const text = readFileSync(path.join(mac.stateDir, "logs", "agent.log"), "utf8");
    // The agent may be writing the last line.
    return text
      .slice(0, Math.max(0, text.lastIndexOf("\n")))
      .split("\n")
      .map((line) => JSON.parse(line));
  }
});
