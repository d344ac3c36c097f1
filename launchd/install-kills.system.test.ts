/** Install, upgrade and uninstall that are killed after each of their steps, with a small agent in place of the real one. */
import { readFileSync } from "node:fs";
import path from "node:path";
import { afterAll, expect, test } from "vitest";
import { isRoot, prepareReleases, runProgram, startMachine } from "../test/bed/launchd/machine.ts";

const KILLED = path.join(import.meta.dirname, "fixtures", "killed-verb.ts");
const STUB = path.join(import.meta.dirname, "fixtures", "stub-agent.mjs");

const releases = await prepareReleases();
const program = readFileSync(STUB, "utf8");
/** The real program only shows what is installed. */
const [real, one, two] = [
  releases.make("1.0.0"),
  releases.make("1.0.0", { program }),
  releases.make("1.1.0", { program }),
];
afterAll(() => releases[Symbol.asyncDispose]());

test.runIf(isRoot)(
  "killed after each step, install, upgrade and uninstall converge when they are run again",
  async () => {
    await using machine = await startMachine();
    // A bundle: dozens of starts from the sources would take most of the time.
    const verbs = await releases.bundle(KILLED);
    const env = { PATH: `${machine.bin}:/usr/bin:/bin`, HOME: "/home/me" };
    const start = (release: string, verb: string) =>
      runProgram(process.execPath, [verbs, machine.root, release, verb], { env });
    const untilDone = async (release: string, verb: string) => {
      let runs = 0;
      for (let last = ""; ; runs += 1) {
        const { code, out, err } = await start(release, verb);
        if (code === 0) return runs;
        expect({ code, err }).toEqual({ code: 128, err: "" });
        // Each run gets further than the one before.
        expect(out).not.toBe(last);
        last = out;
      }
    };
    const service = async () => JSON.parse((await machine.run(real, ["service", "--output", "json"])).out);
    expect(await untilDone(one, "install")).toBeGreaterThanOrEqual(14);
    expect(await service()).toMatchObject({
      current: "1.0.0",
      differing: [],
      agent: { version: "1.0.0" },
    });
    expect(await untilDone(two, "install")).toBeGreaterThanOrEqual(4);
    expect(await service()).toMatchObject({
      current: "1.1.0",
      previous: "1.0.0",
      agent: { version: "1.1.0" },
    });
    expect(machine.versions()).toEqual(["1.0.0", "1.1.0"]);
    expect(await untilDone(one, "uninstall")).toBeGreaterThanOrEqual(10);
    expect(machine.files()).toEqual([]);
  },
  500_000,
);
