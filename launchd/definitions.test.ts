/** The plist and the unit: golden, and read by parsers that are not ours. */
import { execFile } from "node:child_process";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { promisify } from "node:util";
import fc from "fast-check";
import { parse } from "plist";
import { expect, test } from "vitest";
import { type LayoutInput, layoutFor } from "./layout/layout.ts";
import { definitionOf } from "./plan/entries.ts";
import { renderPlistXml } from "./plist/agent-plist.ts";

const golden = path.join(import.meta.dirname, "golden");
const mac = { platform: "darwin", root: "", home: "/Users/me", uid: 501 } as const;
const cases: readonly (readonly [string, LayoutInput, number])[] = [
  ["daemon.plist", { ...mac, scope: "system" }, 30],
  ["daemon-odd.plist", { ...mac, scope: "system", account: "a&b", stateDir: "/Volumes/Models <1>/mb" }, 600],
  ["launch-agent.plist", { ...mac, scope: "user" }, 30],
  ["agent.service", { platform: "linux", scope: "system", root: "", home: "/root", uid: 0 }, 30],
];

test.each(cases)("%s is what the golden file says", async (name, input, drainSeconds) => {
  const text = definitionOf({ layout: layoutFor(input), drainSeconds });
  await expect(text).toMatchFileSnapshot(path.join(golden, name));
});

test.each(cases.slice(0, 3))(
  "a property list parser reads %s, and finds every key that keeps engines alive",
  (_, input, drainSeconds) => {
    const layout = layoutFor(input);
    const job = parse(definitionOf({ layout, drainSeconds })) as Record<string, unknown>;
    expect(job).toMatchObject({
      Label: "dev.metalbridge.agent",
      ProcessType: "Interactive",
      AbandonProcessGroup: true,
      KeepAlive: true,
      RunAtLoad: true,
      ThrottleInterval: 10,
      Umask: "077",
      StandardErrorPath: layout.crashLog,
    });
    expect(Number(job.ExitTimeOut)).toBeGreaterThan(drainSeconds);
    expect(job.UserName).toBe(layout.account);
    const [program, script, ...args] = job.ProgramArguments as string[];
    expect([program, script]).toEqual([
      `${layout.prefix}/current/bin/node`,
      `${layout.prefix}/current/cli/metalbridge.mjs`,
    ]);
    expect(args).toEqual(
      expect.arrayContaining(["--state-dir", layout.stateDir, "--log-file", layout.agentLog]),
    );
    expect(String((job.EnvironmentVariables as Record<string, string>).PATH)).toContain("/opt/homebrew/bin");
    // A daemon's value would become a sysctl of the whole Mac.
    expect("SoftResourceLimits" in job).toBe(layout.scope === "user");
  },
);

test("the program's path is the same for every version", () => {
  const text = definitionOf({ layout: layoutFor({ ...mac, scope: "system" }), drainSeconds: 30 });
  expect(text).not.toMatch(/versions|\d+\.\d+\.\d+</);
});

test("whatever XML can hold comes back from a property list parser", () => {
  const text = fc.string({ unit: "binary" }).filter((one) => /^[\P{C}]*$/u.test(one));
  fc.assert(
    fc.property(
      fc.dictionary(
        fc.stringMatching(/^[A-Za-z]{1,9}$/),
        fc.oneof(
          text.filter((one) => one.trim() === one && one !== ""),
          fc.integer(),
          fc.boolean(),
        ),
      ),
      (dict) => {
        expect(parse(renderPlistXml(dict))).toEqual({ ...dict });
      },
    ),
  );
  for (const bad of ["\u0000", "\u001b", "\ud800"]) expect(() => renderPlistXml({ bad })).toThrow(TypeError);
  expect(() => renderPlistXml({ half: 0.5 })).toThrow(TypeError);
});

const analyze = await promisify(execFile)("systemd-analyze", ["--version"]).then(
  () => true,
  () => false,
);

test.skipIf(!analyze)("systemd-analyze verify accepts the unit", async () => {
  const root = mkdtempSync(path.join(tmpdir(), "mb-unit-"));
  try {
    // Real programs at the paths that the unit names: verify checks that they can be run.
    const layout = layoutFor({
      platform: "linux",
      scope: "system",
      root,
      home: "/root",
      uid: 0,
      account: "root",
    });
    mkdirSync(`${layout.prefix}/current/bin`, { recursive: true });
    writeFileSync(`${layout.prefix}/current/bin/node`, readFileSync("/bin/sh"), { mode: 0o755 });
    const file = path.join(root, "metalbridge-agent.service");
    writeFileSync(file, definitionOf({ layout, drainSeconds: 30 }));
    const { stderr } = await promisify(execFile)("systemd-analyze", ["verify", "--man=no", file]);
    expect(stderr.split("\n").filter((line) => line.includes("metalbridge"))).toEqual([]);
    writeFileSync(
      file,
      definitionOf({ layout, drainSeconds: 30 }).replace("KillMode=process", "KillMode=never"),
    );
    const bad = await promisify(execFile)("systemd-analyze", ["verify", "--man=no", file]).catch(
      (error) => error,
    );
    expect(String(bad.stderr)).toMatch(/kill mode/i);
  } finally {
    rmSync(root, { recursive: true, force: true });
  }
});
