/** docs/attack-surface.md: each caller and each kind of input has a row with its bound and its tests, and the chart gives the rights that the rows name. */
import { existsSync, readdirSync, readFileSync } from "node:fs";
import path from "node:path";
import { expect, test } from "vitest";
import { type ChartObject, helmIn, helmProgram, needsHelm, render } from "../chart/helm.ts";
import { root } from "../docs/pages.ts";

const read = (page: string): string => readFileSync(path.join(root, "docs", page), "utf8");
const page = read("attack-surface.md");

/** Rows of the first table below a heading, without its head. */
function rowsBelow(heading: string): readonly (readonly string[])[] {
  const [, below = ""] = page.split(`\n## ${heading}\n`);
  const lines = (below.split("\n## ")[0] ?? "").split("\n").filter((line) => line.startsWith("|"));
  return lines.slice(2).map((line) =>
    line
      .slice(1, -1)
      .split("|")
      .map((cell) => cell.trim()),
  );
}

const WHATS = ["bodies", "headers", "connections", "names", "numbers", "ports"];
const surfaces = {
  Gateway: ["no key", "key", "tenant", "web page", "engine", "host"],
  Console: ["no session", "reader", "tenant", "web page", "engine", "host"],
  "Scheduler extender": ["no key"],
} as const;
const accounts = rowsBelow("Accounts of the chart");
const rows = [...Object.keys(surfaces).flatMap(rowsBelow), ...accounts];
const inputs = read("input-limits.md")
  .split("\n")
  .flatMap((line) => /^\| (.+?) \| /.exec(line)?.[1] ?? []);
const boundsOf = (cell: string) => [...cell.matchAll(/\*([^*]+)\*/g)].map(([, input = ""]) => input);
const testsOf = (text: string) => [...text.matchAll(/`([^`]+\.test\.ts)`/g)].map(([, file = ""]) => file);

test.each(Object.entries(surfaces))("%s: a row answers what each caller can send", (surface, callers) => {
  const answered = rowsBelow(surface).flatMap(([from = "", sent = ""]) =>
    partsOf(from).flatMap((caller) => partsOf(sent.split(":")[0] ?? "").map((what) => `${caller}: ${what}`)),
  );
  const expected = callers.flatMap((caller) => WHATS.map((what) => `${caller}: ${what}`));
  expect([...new Set(answered)].sort()).toEqual(expected.sort());
});

test.each(rows.map((row) => [row.slice(0, 2).join(": "), row] as const))(
  "%s: bound and tests exist",
  (_, row) => {
    expect(row).toHaveLength(5);
    expect(row.filter((cell) => cell === "")).toEqual([]);
    expect(boundsOf(row[3] ?? "").filter((input) => !inputs.includes(input))).toEqual([]);
    const tests = testsOf(row[4] ?? "");
    expect(tests).not.toEqual([]);
    expect(tests.filter((file) => !existsSync(path.join(root, file)))).toEqual([]);
  },
);

test("each limit of the gateway and the console bounds a row", () => {
  const named = rows.flatMap((row) => boundsOf(row[3] ?? ""));
  const ofSurfaces = inputs.filter((input) => /\b(gateway|console)\b/.test(input));
  expect(ofSurfaces).not.toEqual([]);
  expect(ofSurfaces.filter((input) => !named.includes(input))).toEqual([]);
});

test("each test of test/security proves a row of one of the pages", () => {
  const pages = ["attack-surface.md", "threat-model.md", "input-limits.md"].map(read).join("\n");
  const tests = readdirSync(path.join(root, "test/security")).filter((file) => file.endsWith(".test.ts"));
  expect(tests.filter((file) => !pages.includes(`test/security/${file}`))).toEqual([]);
});

interface Rule {
  readonly apiGroups: readonly string[];
  readonly resources: readonly string[];
  readonly resourceNames?: readonly string[];
  readonly verbs: readonly string[];
}

const READS = ["get", "list", "watch"];

interface Rights {
  readonly changes: readonly string[];
  readonly secrets: readonly string[];
  readonly podsProxy?: readonly string[];
}

/** All that the accounts may change, besides that of the controller. */
const RIGHTS: Readonly<Record<string, Rights>> = {
  "metalbridge-gateway": {
    changes: ["configmaps", "leases", "subjectaccessreviews", "tokenreviews"],
    secrets: ["get", "list", "watch"],
  },
  "metalbridge-server": {
    changes: ["subjectaccessreviews", "tokenreviews"],
    secrets: [],
    podsProxy: ["get"],
  },
  "metalbridge-node": { changes: ["configmaps"], secrets: [] },
  "metalbridge-lws": {
    changes: [
      ...["controllerrevisions", "events", "leaderworkersets", "leaderworkersets/finalizers"],
      ...["leaderworkersets/status", "pods", "pods/finalizers", "services", "statefulsets"],
      "statefulsets/finalizers",
    ],
    secrets: [],
  },
  "metalbridge-doctor": { changes: [], secrets: [] },
  "metalbridge-logs": { changes: [], secrets: [] },
};

test.skipIf(helmProgram === undefined)(
  `the accounts have these rights and no others${needsHelm}`,
  async () => {
    const on = ["gateway", "server", "node", "remoteAccess", "scheduler.extender"].map(
      (part) => `${part}.enabled=true`,
    );
    const more = [
      "remoteAccess.logNamespaces={team-a}",
      "preflight.mode=Warn",
      "autoscaling.externalMetrics=true",
      "leaderWorkerSet.enabled=true",
    ];
    const objects = await render(helmIn("/nonexistent"), "--set", [...on, ...more].join(","));
    const ofChart = objects
      .filter(({ kind }) => kind === "ServiceAccount")
      .map(({ metadata }) => metadata.name);
    const named = accounts.flatMap(([cell = ""]) => [...cell.matchAll(/`([^`]+)`/g)].map(([, name]) => name));
    expect([...new Set(named)].sort()).toEqual([...new Set(ofChart)].sort());
    for (const [account, rights] of Object.entries(RIGHTS)) {
      const rules = rulesOf(objects, account);
      const changing = rules.filter(({ verbs }) => verbs.some((verb) => !READS.includes(verb)));
      const changes = [...new Set(changing.flatMap(({ resources }) => resources))].sort();
      const verbsOn = (what: string) =>
        rules.flatMap(({ resources, verbs }) => (resources.includes(what) ? verbs : []));
      const found = { changes, secrets: verbsOn("secrets"), podsProxy: verbsOn("pods/proxy") };
      expect({ account, ...found }).toEqual({ account, podsProxy: [], ...rights });
    }
    const ofController = rulesOf(objects, "metalbridge-controller");
    const granting = ofController.filter(({ verbs }) =>
      verbs.some((verb) => /^(bind|escalate|impersonate|\*)$/.test(verb)),
    );
    expect(granting.map(({ verbs, resourceNames }) => [verbs, resourceNames])).toEqual([
      [["bind"], ["metalbridge-agent"]],
    ]);
  },
);

function partsOf(cell: string): string[] {
  return cell.split(",").map((part) => part.trim());
}

function rulesOf(objects: readonly ChartObject[], account: string): readonly Rule[] {
  const keyOf = ({ kind, metadata }: Pick<ChartObject, "kind" | "metadata">) =>
    `${kind} ${metadata.namespace ?? ""}/${metadata.name}`;
  const roles = new Map(objects.map((object) => [keyOf(object), object]));
  return objects.flatMap((binding) => {
    const { subjects, roleRef, metadata } = binding as ChartObject & Binding;
    if (!subjects?.some(({ kind, name }) => kind === "ServiceAccount" && name === account)) return [];
    const namespace = roleRef.kind === "ClusterRole" ? undefined : metadata.namespace;
    const role = roles.get(keyOf({ kind: roleRef.kind, metadata: { name: roleRef.name, namespace } }));
    return (role as (ChartObject & { readonly rules?: readonly Rule[] }) | undefined)?.rules ?? [];
  });
}

interface Binding {
  readonly subjects?: readonly { readonly kind: string; readonly name: string }[];
  readonly roleRef: { readonly kind: string; readonly name: string };
}
