/** The agent as launchd's job, on the real control plane and a real engine: installed over a running one, upgraded under load, rolled back, removed. */
import { readFileSync, writeFileSync } from "node:fs";
import path from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { readPartsConfig } from "../../local/control-plane/config.ts";
import { findLlamaServer } from "../../local/control-plane/engine-programs.ts";
import { livingEngines } from "../bed/engines.ts";
import {
  archiveOf,
  type Machine,
  PATIENT,
  prepareReleases,
  type Releases,
  startMachine,
} from "../bed/launchd/machine.ts";
import { allKinds, lostOf, startClients } from "../bed/load/clients.ts";
import { canRunNodeNetwork } from "../bed/node-network.ts";
import { enginePorts } from "../bed/ports.ts";
import { type System, startSystem } from "../bed/system.ts";
import { writeTinyGguf } from "../fixtures/tiny-gguf.ts";

const can = canRunNodeNetwork();
const why = can.ok ? "" : ` (skipped: ${can.why})`;
const MINUTE = 60_000;

describe.skipIf(!can.ok)(`an agent as a service of launchd${why}`, () => {
  let on: System;
  let machine: Machine;
  let releases: Releases;

  beforeAll(async () => {
    [on, machine, releases] = await Promise.all([startSystem(), startMachine(), prepareReleases()]);
    // The engines of this test can be read by root only.
    machine.directory.records.set(
      "/Users/farm",
      new Map([
        ["UniqueID", "0"],
        ["PrimaryGroupID", "0"],
      ]),
    );
    await writeTinyGguf(path.join(on.farm.modelsDir, "chat.gguf"));
    await on.services.applyService("chat", "chat.gguf", { parallelSlots: 2, rollout: { drainSeconds: 30 } });
    await on.services.untilReady("chat");
  }, 4 * MINUTE);

  afterAll(async () => {
    await machine?.[Symbol.asyncDispose]();
    await releases?.[Symbol.asyncDispose]();
    await on?.[Symbol.asyncDispose]();
  }, 2 * MINUTE);

  const engines = () => [...livingEngines(on.farm.stateDir).values()];

  /** What clients of every kind lost meanwhile. */
  async function lostDuring(move: () => Promise<void>): Promise<readonly string[]> {
    const url = `http://${await on.services.clusterIp("chat")}:8080`;
    await using clients = startClients(on.network.namespace, { url, clients: allKinds() });
    await clients.untilEachAsked(1);
    await move();
    await clients.untilEachAsked(1);
    return lostOf(await clients.stop());
  }

  it(
    "install takes over the state of an agent that ran in a terminal, and keeps its engine",
    async () => {
      const before = engines();
      expect(before).toHaveLength(1);
      const { hostName, stateDir, modelsDir } = on.farm;
      const kubeconfig = await on.farm.join(hostName);
      const config = machine.at("wanted.yaml");
      const settings = {
        ...{ kubeconfig, hostName, addresses: [on.network.hostAddress], modelRoots: [modelsDir] },
        ...{ portRange: enginePorts(), llamaServer: [findLlamaServer(readPartsConfig())] },
      };
      writeFileSync(config, JSON.stringify(settings));
      await on.farm.agent().kill("SIGTERM");
      const args = ["install", "--config", config, "--state-dir", stateDir, "--user", "farm", ...PATIENT];
      expect(await machine.run(releases.make("1.0.0"), args)).toMatchObject({ code: 0, err: "" });
      expect(engines()).toEqual(before);
      await on.services.untilReady("chat");
    },
    3 * MINUTE,
  );

  it(
    "an upgrade fails no request, and keeps every engine",
    async () => {
      const before = engines();
      const lost = await lostDuring(async () => {
        expect(await machine.run(releases.make("1.1.0"), ["upgrade", ...PATIENT])).toMatchObject({
          code: 0,
          err: "",
        });
      });
      expect(lost).toEqual([]);
      expect(engines()).toEqual(before);
      expect(await machine.service()).toMatchObject({
        agent: { version: "1.1.0", troubles: [] },
        engines: 1,
      });
      // The Lease lasts 40 s.
      expect(awayMs()).toBeLessThan(20_000);
    },
    3 * MINUTE,
  );

  it(
    "a bad upgrade is rolled back, fails no request, and keeps every engine",
    async () => {
      const before = engines();
      const archive = archiveOf(
        releases.make("2.0.0", { program: "process.exit(3);" }),
        machine.at("bad.tar.gz"),
      );
      const lost = await lostDuring(async () => {
        const args = ["upgrade", "--archive", archive, "--timeout-seconds", "10"];
        expect((await machine.run(machine.installed, args)).err).toMatch(/^UpgradeRolledBack/);
      });
      expect(lost).toEqual([]);
      expect(engines()).toEqual(before);
      expect(await machine.service()).toMatchObject({ current: "1.1.0", agent: { version: "1.1.0" } });
    },
    3 * MINUTE,
  );

  it(
    "uninstall refuses while the engine serves, and drains it when asked to",
    async () => {
      expect((await machine.run(machine.installed, ["uninstall"])).err).toMatch(/^EnginesRunning/);
      expect(engines()).toHaveLength(1);
      const ran = await machine.run(machine.installed, ["uninstall", "--stop-engines"]);
      expect(ran).toMatchObject({ code: 0, err: "" });
      expect(engines()).toEqual([]);
      expect(machine.launchd.labels()).toEqual([]);
    },
    3 * MINUTE,
  );

  /** From the old agent's last line to the new one's first. */
  function awayMs(): number {
    const log = readFileSync(path.join(on.farm.stateDir, "logs", "agent.log"), "utf8");
    const lines = log
      .trimEnd()
      .split("\n")
      .map((line) => JSON.parse(line) as { msg: string; time: string });
    const at = (msg: string) => Date.parse(lines.findLast((line) => line.msg === msg)?.time ?? "");
    return at("agent started") - at("agent exited");
  }
});
