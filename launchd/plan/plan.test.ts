import fc from "fast-check";
import { expect, test } from "vitest";
import { layoutFor } from "../layout/layout.ts";
import { installEntriesOf } from "./entries.ts";
import { assessHealth } from "./health.ts";
import { planCleanup, planInstall, planRollback } from "./install.ts";
import type { ManagedJob, ObservedAgent, ObservedInstallation } from "./observed.ts";
import { installRefusalOf } from "./refuse.ts";
import { planUninstall } from "./uninstall.ts";
import { compareReleases, isVersion } from "./version.ts";

const layout = layoutFor({ platform: "darwin", scope: "system", root: "", home: "/Users/me", uid: 501 });
const entries = installEntriesOf({ layout, drainSeconds: 30 });
const wanted = entries.map((entry) => ({ entry, state: { is: "correct" } as const }));
const missing = entries.map((entry) => ({ entry, state: { is: "missing" } as const }));
const loaded: ManagedJob = {
  at: "loaded",
  isDisabled: false,
  path: layout.definition,
  state: "running",
  pid: 5,
  runs: 1,
  lastExit: undefined,
  isLeaving: false,
};
const serving = (version: string, troubles: string[] = []): ObservedAgent => ({
  at: "answers",
  pid: 5,
  version,
  phase: "serving",
  troubles,
});
const nothing: ObservedInstallation = {
  account: "missing",
  versions: [],
  partials: [],
  proven: [],
  current: undefined,
  previous: undefined,
  entries: missing,
  job: { at: "absent", isDisabled: false },
  agent: { at: "none" },
  engines: 0,
};
const installed: ObservedInstallation = {
  ...nothing,
  account: "present",
  versions: ["1.0.0"],
  proven: ["1.0.0"],
  current: "1.0.0",
  entries: wanted,
  job: loaded,
  agent: serving("1.0.0"),
};
const names = (steps: readonly { readonly do: string }[]) => steps.map((step) => step.do);

test("an install creates the account first, the definition after the version, and starts the service last", () => {
  const steps = planInstall(layout, "1.0.0", nothing);
  expect(names(steps).filter((name) => name !== "make")).toEqual([
    "create account",
    "stage",
    "switch",
    "load",
  ]);
  // On a full disk no file has changed yet.
  expect(names(steps).slice(0, 3)).toEqual(["create account", "stage", "make"]);
  expect(names(steps).at(-2)).toBe("make");
  expect(steps.at(-2)).toMatchObject({ entry: { path: layout.definition } });
});

test("planInstall plans no step for a correct installation", () => {
  expect(planInstall(layout, "1.0.0", installed)).toEqual([]);
  expect(planCleanup(layout, installed)).toEqual([]);
});

test("a damaged version is replaced, and the agent that still runs from it is restarted", () => {
  const damaged = { ...installed, versions: [], proven: [], partials: ["1.0.0"] };
  expect(planInstall(layout, "1.0.0", damaged)).toEqual([
    { do: "stage", version: "1.0.0" },
    { do: "restart" },
  ]);
});

test("an upgrade records the previous version, switches, and restarts without reloading", () => {
  expect(planInstall(layout, "1.1.0", installed)).toEqual([
    { do: "stage", version: "1.1.0" },
    { do: "remember", previous: "1.0.0" },
    { do: "switch", version: "1.1.0" },
    { do: "restart" },
  ]);
});

test.each<[string, Partial<ObservedInstallation>, string | undefined]>([
  ["the version that served", {}, "1.0.0"],
  ["no version that never served", { proven: [] }, undefined],
  [
    "the one that served before a version that was cut off",
    { versions: ["1.0.0", "1.0.1"], current: "1.0.1", previous: "1.0.0" },
    undefined,
  ],
  [
    "the version that served, in place of an older one",
    { versions: ["0.9.0", "1.0.0"], proven: ["0.9.0", "1.0.0"], previous: "0.9.0" },
    "1.0.0",
  ],
  ["no version whose folder is gone", { versions: [], proven: [] }, undefined],
])("an upgrade keeps for a rollback %s", (_, seen, expected) => {
  const steps = planInstall(layout, "1.1.0", { ...installed, ...seen });
  expect(steps.find((step) => step.do === "remember")?.previous).toBe(expected);
});

test("an upgrade after an interrupted upgrade rolls back to the version that served", () => {
  const observed: ObservedInstallation = {
    ...installed,
    versions: ["1.0.0", "1.0.1", "1.1.0"],
    current: "1.1.0",
    previous: "1.0.0",
  };
  expect(planRollback(layout, observed, { version: "1.0.1", replaced: [] })).toMatchObject([
    { do: "switch", version: "1.0.0" },
    { do: "kill" },
    { do: "restart" },
  ]);
});

const switched: ObservedInstallation = {
  ...installed,
  versions: ["1.0.0", "1.1.0"],
  current: "1.1.0",
  previous: "1.0.0",
};

test("an upgrade that was interrupted after the switch restarts, and can still roll back", () => {
  expect(planInstall(layout, "1.1.0", switched)).toEqual([{ do: "restart" }]);
  expect(planRollback(layout, switched, { version: "1.1.0", replaced: [] })).toEqual([
    { do: "switch", version: "1.0.0" },
    { do: "kill" },
    { do: "restart" },
  ]);
});

const replacing = (...paths: readonly string[]) => paths.map((path) => ({ path, text: `old ${path}` }));

test.each<[string, string | undefined, readonly string[], Partial<ObservedInstallation>, readonly string[]]>([
  ["the configuration", "1.0.0", [layout.configFile], {}, ["make", "kill", "restart"]],
  ["the definition", "1.0.0", [layout.configFile, layout.definition], {}, ["make", "make", "kill", "reload"]],
  ["what a stopped agent had", "1.0.0", [layout.configFile], { job: nothing.job }, ["make", "load"]],
  ["nothing where nothing was replaced", "1.0.0", [], {}, []],
  ["nothing that another version ran with", "1.1.0", [layout.configFile], {}, []],
  ["nothing for a version that never served", "1.0.0", [layout.configFile], { proven: [] }, []],
])(
  "a version that served and does not serve with what replaced it gets back %s",
  (_, version, paths, seen, expected) => {
    const steps = planRollback(layout, { ...installed, ...seen }, { version, replaced: replacing(...paths) });
    expect(names(steps)).toEqual(expected);
  },
);

test("a rollback restores the files of the previous version, and reloads a changed definition", () => {
  const back = (...paths: readonly string[]) =>
    planRollback(layout, switched, { version: "1.0.0", replaced: replacing(...paths) });
  expect(back(layout.configFile)).toMatchObject([
    { do: "switch", version: "1.0.0" },
    {
      do: "make",
      entry: { path: layout.configFile, text: `old ${layout.configFile}`, keepsExisting: false },
    },
    { do: "kill" },
    { do: "restart" },
  ]);
  expect(names(back(layout.configFile, layout.definition))).toEqual([
    "switch",
    "make",
    "make",
    "kill",
    "reload",
  ]);
});

const both = ["1.0.0", "1.1.0"];

test.each<[string, string | undefined, Partial<ObservedInstallation>, string | undefined]>([
  ["a version that had served before", "1.0.0", { proven: both }, "1.0.0"],
  ["a downgrade", "1.1.0", { current: "1.0.0", previous: "1.1.0", proven: both }, "1.1.0"],
  ["an upgrade without a link to the version before", "1.0.0", { previous: undefined }, "1.0.0"],
  ["a version that has served and was not replaced", "1.1.0", { proven: both }, undefined],
  ["an upgrade of one that has not served", "1.0.0", { proven: [] }, undefined],
  ["an upgrade of one whose folder is gone", "1.0.0", { versions: ["1.1.0"] }, undefined],
  ["a first install", undefined, { previous: undefined }, undefined],
])("where a rollback of %s goes", (_, version, seen, expected) => {
  const steps = planRollback(layout, { ...switched, ...seen }, { version, replaced: [] });
  expect(steps.find((step) => step.do === "switch")?.version).toBe(expected);
});

test("a changed definition is reloaded, a changed configuration restarts", () => {
  const change = (path: string) =>
    installed.entries.map((one) =>
      one.entry.path === path
        ? { ...one, state: { is: "different", what: "text", isOurs: true } as const }
        : one,
    );
  expect(names(planInstall(layout, "1.0.0", { ...installed, entries: change(layout.definition) }))).toEqual([
    "make",
    "reload",
  ]);
  expect(names(planInstall(layout, "1.0.0", { ...installed, entries: change(layout.configFile) }))).toEqual([
    "make",
    "restart",
  ]);
});

test("cleanup retains the current and the previous version, and removes leftovers of interrupted runs", () => {
  const steps = planCleanup(layout, {
    ...switched,
    versions: ["0.9.0", "1.0.0", "1.1.0"],
    partials: [".1.1.0.7.partial"],
  });
  expect(steps).toEqual([
    { do: "approve", version: "1.1.0" },
    { do: "remove", path: `${layout.prefix}/versions/0.9.0`, owner: "installer" },
    { do: "remove", path: `${layout.prefix}/versions/.1.1.0.7.partial`, owner: "installer" },
  ]);
});

const request = {
  layout,
  version: "1.0.0",
  euid: 0,
  allowDowngrade: false,
  takeOver: false,
  stateOwner: undefined,
  accountUid: 421,
};

test.each([
  ["no root", { euid: 501 }, {}, "RootRequired"],
  ["an older version", { version: "0.9.0" }, {}, "DowngradeRefused"],
  ["a pre-release of the installed version", { version: "1.0.0-rc.1" }, {}, "DowngradeRefused"],
  [
    "a job from elsewhere",
    {},
    { job: { ...loaded, path: "/Library/LaunchDaemons/mine.plist" } },
    "ServiceForeign",
  ],
  [
    "a plist of another program",
    {},
    { entries: [{ entry: entries.at(-1), state: { is: "different", what: "text", isOurs: false } }] },
    "ServiceForeign",
  ],
  ["another account's state", { stateOwner: 501 }, {}, "ServiceForeign"],
  [
    "state below another account's folder",
    { aboveState: { at: "/Volumes/x", uid: 501 } },
    {},
    "StateDirUnusable",
  ],
  ["state below no volume", { unmounted: "/Volumes/x" }, {}, "StateDirUnusable"],
])("%s is refused before anything is changed", (_, change, seen, code) => {
  expect(
    installRefusalOf({ ...request, ...change }, { ...installed, ...seen } as ObservedInstallation)?.code,
  ).toBe(code);
});

test("a state folder below a folder of the agent's account is accepted", () => {
  const aboveState = { at: "/Users/farm", uid: request.accountUid };
  expect(installRefusalOf({ ...request, aboveState }, installed)).toBeUndefined();
});

test("an older version and a foreign job are accepted with the corresponding flags", () => {
  const foreign: ObservedInstallation = { ...installed, job: { ...loaded, path: "/else.plist" } };
  expect(
    installRefusalOf({ ...request, version: "0.9.0", allowDowngrade: true, takeOver: true }, foreign),
  ).toBeUndefined();
});

test("uninstall stops the service first and removes its record last, and retains the models and their account", () => {
  const stateEntries = ["models", "engines", "agent.sock"];
  const steps = planUninstall({ layout, observed: { ...installed, engines: 2 }, purge: false, stateEntries });
  expect(names(steps).slice(0, 3)).toEqual(["unload", "stop engines", "remove"]);
  expect(steps.at(-1)).toEqual({ do: "remove", path: layout.prefix, owner: "installer" });
  expect(names(steps)).not.toContain("remove account");
  const paths = steps.flatMap((step) => ("path" in step ? [step.path] : []));
  expect(paths).toContain(`${layout.stateDir}/engines`);
  expect(paths).not.toContain(layout.stateDir);
  const all = planUninstall({ layout, observed: installed, purge: true, stateEntries });
  expect(all).toEqual(
    expect.arrayContaining([
      { do: "remove", path: layout.stateDir, owner: "account" },
      { do: "remove account", name: "_metalbridge" },
    ]),
  );
});

const expected = { version: "1.1.0", knownProblems: ["ApiUnreachable"], runsBefore: 1 };

test.each<[string, ObservedAgent, ManagedJob | undefined, { pid: number; atMs: number } | undefined, string]>(
  [
    ["serves for a second", serving("1.1.0"), loaded, { pid: 5, atMs: 0 }, "healthy"],
    [
      "has the troubles of the version before",
      serving("1.1.0", ["ApiUnreachable"]),
      loaded,
      { pid: 5, atMs: 0 },
      "healthy",
    ],
    [
      "was started in a terminal",
      serving("1.1.0"),
      { ...loaded, pid: undefined, state: "spawn scheduled" },
      { pid: 5, atMs: 0 },
      "waiting",
    ],
    ["serves, while launchd was not asked", serving("1.1.0"), undefined, { pid: 5, atMs: 0 }, "waiting"],
    ["has just begun", serving("1.1.0"), loaded, { pid: 5, atMs: 900 }, "waiting"],
    ["was another process a moment ago", serving("1.1.0"), loaded, { pid: 4, atMs: 0 }, "waiting"],
    ["has a trouble of its own", serving("1.1.0", ["ApiForbidden"]), loaded, undefined, "waiting"],
    ["is still the old one", serving("1.0.0"), loaded, undefined, "waiting"],
    [
      "does not listen",
      { at: "none" },
      { ...loaded, pid: undefined, runs: 2, lastExit: "1" },
      undefined,
      "waiting",
    ],
    [
      "crashes again",
      { at: "none" },
      { ...loaded, pid: undefined, runs: 3, lastExit: "1" },
      undefined,
      "failed",
    ],
    [
      "cannot be started",
      { at: "none" },
      { ...loaded, pid: undefined, runs: 2, lastExit: "78: EX_CONFIG" },
      undefined,
      "failed",
    ],
    [
      "has not been started yet, where the one before could not be",
      { at: "none" },
      { ...loaded, pid: undefined, runs: 1, lastExit: "78: EX_CONFIG" },
      undefined,
      "waiting",
    ],
  ],
)("a version that %s: judged", (_, agent, job, since, is) => {
  expect(assessHealth(expected, { atMs: 1_000, agent, job }, since).is).toBe(is);
});

test("compareReleases orders versions by Semantic Versioning", () => {
  const ordered = [
    "1.0.0-alpha",
    "1.0.0-alpha.1",
    "1.0.0-alpha.beta",
    "1.0.0-beta",
    "1.0.0-beta.2",
    "1.0.0-beta.11",
    "1.0.0-rc.1",
    "1.0.0",
    "1.0.1",
    "1.10.0",
    "2.0.0",
  ];
  for (const [index, one] of ordered.entries())
    for (const [other, two] of ordered.entries())
      expect(Math.sign(compareReleases(one, two))).toBe(Math.sign(index - other));
  expect(["1.0", "v1.0.0", "1.0.0-..", "../1.0.0", "1.0.0/x"].map(isVersion)).toEqual(Array(5).fill(false));
});

test("every plan stages a version before it switches to it", () => {
  const version = fc.constantFrom("1.0.0", "1.1.0", "1.2.0");
  const seen = fc.record({
    versions: fc.uniqueArray(version),
    current: fc.option(version, { nil: undefined }),
    previous: fc.option(version, { nil: undefined }),
  });
  fc.assert(
    fc.property(seen, version, (some, target) => {
      const steps = planInstall(layout, target, { ...installed, ...some });
      const order = names(steps);
      if (order.includes("switch"))
        expect(some.versions.includes(target) || order.indexOf("stage") < order.indexOf("switch")).toBe(true);
      for (const step of steps) if (step.do === "remember") expect(some.versions).toContain(step.previous);
    }),
  );
});
