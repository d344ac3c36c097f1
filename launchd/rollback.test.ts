/**
 * What an install goes back to when the agent does not serve: the version before, and the files that it ran with.
 * CPU: each install copies and checks a whole release, and starts a real agent.
 */
import { execFileSync } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { type AddressInfo, createServer } from "node:net";
import { afterAll, expect, test, vi } from "vitest";
import {
  archiveOf,
  isRoot,
  LABEL,
  type Machine,
  PATIENT,
  PLIST,
  PREFIX,
  prepareReleases,
  STATE,
  startMachine,
} from "../test/bed/launchd/machine.ts";
import type { Call } from "../test/bed/launchd/replayed-commands.ts";

const releases = await prepareReleases();
const [one, two] = [releases.make("1.0.0"), releases.make("1.1.0")];
afterAll(() => releases[Symbol.asyncDispose]());

test.runIf(isRoot).each([
  ["exits at once", "process.exit(3);"],
  ["never serves and ignores SIGTERM", 'process.on("SIGTERM", () => {}); setInterval(() => {}, 1000);'],
])("a version that %s is rolled back", async (_, program) => {
  await using machine = await startMachine();
  await machine.run(one, ["install", ...PATIENT]);
  const bad = releases.make("2.0.0", { program });
  // The release's own program is the broken one, so that the installed version does the upgrade.
  const archive = archiveOf(bad, machine.at("bad.tar.gz"));
  // With a configuration of its own, and a definition that differs: both belong to the version that ran before.
  const [config, definition] = [machine.at("usr/local/etc/metalbridge/agent.yaml"), machine.at(PLIST)];
  writeFileSync(definition, readFileSync(definition, "utf8").replace("Interactive", "Standard"));
  const before = [config, definition].map((file) => readFileSync(file, "utf8"));
  const given = machine.at("given.yaml");
  writeFileSync(given, "stopEngines: true\n");
  const ran = await machine.run(machine.installed, [
    ...["install", "--archive", archive, "--config", given],
    ...["--timeout-seconds", "5"],
  ]);
  expect([config, definition].map((file) => readFileSync(file, "utf8"))).toEqual(before);
  expect(ran).toMatchObject({
    code: 1,
    err: expect.stringMatching(
      /^UpgradeRolledBack: version 2\.0\.0 does not serve: .*version 1\.0\.0 runs again, with .*agent\.yaml, .*\.plist as before/,
    ),
  });
  // It may not take the minute that an agent has for draining.
  expect(machine.calls).toContainEqual(expect.stringContaining("kill SIGKILL"));
  expect([machine.current(), machine.versions()]).toEqual(["1.0.0", ["1.0.0"]]);
  expect(await machine.service()).toMatchObject({ agent: { version: "1.0.0", phase: "serving" } });
});

test.runIf(isRoot)(
  "the installed version gets back its configuration, definition and record if it does not serve with new ones",
  async () => {
    await using machine = await startMachine();
    await machine.run(one, ["install", ...PATIENT]);
    const taken = createServer().listen(0, "127.0.0.1");
    await once(taken, "listening");
    try {
      const files = ["usr/local/etc/metalbridge/agent.yaml", PLIST, `${PREFIX}/install.json`];
      const before = files.map((file) => machine.read(file));
      const given = machine.at("given.yaml");
      const { port } = taken.address() as AddressInfo;
      // SIGTERM would end the engines with this configuration.
      writeFileSync(given, `metricsPort: ${port}\nstopEngines: true\n`);
      const ran = await machine.run(machine.installed, [
        ...["install", "--config", given, "--state-dir", machine.at("usr/local/var/other")],
        ...["--timeout-seconds", "5"],
      ]);
      expect(files.map((file) => machine.read(file))).toEqual(before);
      expect(ran).toMatchObject({
        code: 1,
        err: expect.stringMatching(
          /^UpgradeRolledBack: version 1\.0\.0 does not serve: .*version 1\.0\.0 runs again, with .*install\.json, .*agent\.yaml, .*\.plist as before/,
        ),
      });
      expect(machine.calls).toContainEqual(expect.stringContaining("kill SIGKILL"));
      expect([machine.current(), machine.versions()]).toEqual(["1.0.0", ["1.0.0"]]);
      expect(await machine.service()).toMatchObject({
        stateDir: machine.at(STATE),
        differing: [],
        agent: { version: "1.0.0", phase: "serving" },
      });
    } finally {
      taken.close();
    }
  },
);

test.runIf(isRoot)(
  "an upgrade to a bad version that was killed after the switch is rolled back by the next run",
  async () => {
    await using machine = await startMachine();
    await machine.run(one, ["install", ...PATIENT]);
    const bad = releases.make("2.0.0", { program: "process.exit(3);" });
    // As a killed run leaves it: staged, remembered, switched.
    execFileSync("cp", ["-r", bad, machine.at(`${PREFIX}/versions/2.0.0`)]);
    execFileSync("ln", ["-sfn", "versions/1.0.0", machine.at(`${PREFIX}/previous`)]);
    execFileSync("ln", ["-sfn", "versions/2.0.0", machine.at(`${PREFIX}/current`)]);
    const archive = archiveOf(bad, machine.at("bad.tar.gz"));
    const ran = await machine.run(one, ["upgrade", "--archive", archive, "--timeout-seconds", "5"]);
    expect(ran.err).toMatch(/^UpgradeRolledBack/);
    expect(await machine.service()).toMatchObject({ current: "1.0.0", agent: { version: "1.0.0" } });
  },
);

test.runIf(isRoot)(
  "an older version that served once and does not serve now goes back to the newer one and its configuration",
  async () => {
    await using machine = await startMachine();
    await machine.run(one, ["install", ...PATIENT]);
    await machine.run(two, ["upgrade", ...PATIENT]);
    const taken = createServer().listen(0, "127.0.0.1");
    await once(taken, "listening");
    try {
      const given = machine.at("given.yaml");
      writeFileSync(given, `metricsPort: ${(taken.address() as AddressInfo).port}\n`);
      const ran = await machine.run(one, [
        ...["install", "--allow-downgrade", "--config", given, "--timeout-seconds", "5"],
      ]);
      expect(ran).toMatchObject({
        code: 1,
        err: expect.stringMatching(
          /^UpgradeRolledBack: version 1\.0\.0 does not serve: .*version 1\.1\.0 runs again, with .*agent\.yaml as before/,
        ),
      });
      expect(machine.read("usr/local/etc/metalbridge/agent.yaml")).not.toContain("metricsPort");
      expect(await machine.service()).toMatchObject({
        current: "1.1.0",
        differing: [],
        agent: { version: "1.1.0", phase: "serving" },
      });
    } finally {
      taken.close();
    }
  },
);

test.runIf(isRoot)(
  "a step that fails after the configuration was replaced brings it back, and the agent runs with it",
  async () => {
    await using machine = await startMachine();
    await machine.run(one, ["install", ...PATIENT]);
    const before = machine.read("usr/local/etc/metalbridge/agent.yaml");
    const command = machine.at("usr/local/bin/metalbridge");
    rmSync(command);
    mkdirSync(`${command}/full`, { recursive: true });
    const given = machine.at("given.yaml");
    writeFileSync(given, "logLevel: debug\n");
    const ran = await machine.run(machine.installed, [
      ...["install", "--take-over", "--config", given, ...PATIENT],
    ]);
    expect(ran).toMatchObject({
      code: 1,
      out: expect.stringMatching(/version 1\.0\.0 runs again, with .*agent\.yaml as before\n$/),
      err: expect.stringMatching(/^InstallFailed: cannot correct .*bin\/metalbridge/),
    });
    expect(machine.read("usr/local/etc/metalbridge/agent.yaml")).toBe(before);
    expect(await machine.service()).toMatchObject({ agent: { version: "1.0.0", phase: "serving" } });
  },
);

test.runIf(isRoot)(
  "a crash of the running version during the copy does not count against the new one",
  async () => {
    let crashes = 0;
    let held: Call | undefined;
    await using machine: Machine = await startMachine({
      // The next start is ours.
      msPerSecond: 10_000,
      commands: {
        launchctl: async (call) => {
          const [verb] = call.args;
          if (verb === "kickstart") {
            held = call;
            await end();
            return {};
          }
          const response = await machine.launchd.launchctl(call);
          if (verb !== "print") return response;
          for (; crashes > 0; crashes -= 1) {
            await end();
            await machine.launchd.launchctl({ args: ["kickstart", `system/${LABEL}`], euid: 0 });
            await vi.waitFor(() => expect(machine.launchd.pidOf(LABEL)).toBeDefined(), { timeout: 20_000 });
          }
          // It has been seen without a process.
          if (held !== undefined) await machine.launchd.launchctl(held);
          held = undefined;
          return response;
        },
      },
    });
    const end = async (): Promise<void> => {
      const pid = machine.launchd.pidOf(LABEL);
      if (pid !== undefined) process.kill(pid, "SIGKILL");
      await vi.waitFor(() => expect(machine.launchd.pidOf(LABEL)).toBeUndefined(), { timeout: 20_000 });
    };
    await machine.run(one, ["install", ...PATIENT]);
    crashes = 2;
    expect(await machine.run(two, ["upgrade", ...PATIENT])).toMatchObject({ code: 0, err: "" });
    expect([machine.current(), crashes, held]).toEqual(["1.1.0", 0, undefined]);
  },
);
