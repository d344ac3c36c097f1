import { chmod, mkdir, readdir, readFile, writeFile } from "node:fs/promises";
import path from "node:path";
import { expect, test } from "vitest";
import { temporaryFolder } from "../../test/fixtures/temporary-folder.ts";
import { gitFiles } from "../project/git-files.ts";
import { root } from "../project/root.ts";
import { dependencies, dependents, isTest } from "../tests/import-graph.ts";
import { ensureClusterParts } from "./cluster/cluster-parts.mjs";
import { isNeeded, LANES, PURPOSES, provide } from "./parts.mjs";
import { createProgress, SetupError } from "./steps.mjs";

const parts = Object.values(LANES).flat();
const namesFor = (purpose: string) => parts.filter((part) => isNeeded(part, purpose)).map(({ name }) => name);

/** By what a test finds a part that only `npm run test:system` needs. */
const FINDERS: Readonly<Record<string, RegExp>> = {
  sshServer: /\bfindSshServer\b/,
  ansible: /\bfindAnsible\b/,
  karpenter: /\bfindKarpenter\b/,
  karpenterCrds: /\bfindKarpenterCrds\b/,
  lws: /\bfindLws\b/,
  nodeParts: /\bfindNodeParts\b/,
  prometheus: /\bfindPrometheus\b/,
};

interface Context {
  readonly root: string;
  readonly parts: Readonly<Record<string, unknown>>;
}

const quiet = () => {
  const lines: string[] = [];
  return { lines, progress: createProgress({ write: (text: string) => lines.push(text) > 0 }) };
};

test("each purpose needs all parts of the one before it; npm start needs no part of tests", () => {
  expect(namesFor("start")).toEqual(["node", "bundle", "clusterPartFolders", "llamaServer", "envoy"]);
  expect(namesFor("test")).toEqual(expect.arrayContaining(namesFor("start")));
  expect(new Set(namesFor("system"))).toEqual(new Set(parts.map(({ name }) => name)));
  expect(new Set(parts.map(({ name }) => name)).size).toBe(parts.length);
  expect(parts.filter((part) => !PURPOSES.includes(part.for))).toEqual([]);
});

test("no test of npm test needs a part that only npm run test:system provides", async () => {
  const only = namesFor("system").filter((name) => !namesFor("test").includes(name));
  expect(only.toSorted()).toEqual(Object.keys(FINDERS).toSorted());

  const files = gitFiles(root, "*.ts");
  const sources = await Promise.all(
    files.map(async (file) => ({ file, text: await readFile(path.join(root, file), "utf8") })),
  );
  const finds = (text: string) => Object.values(FINDERS).some((finder) => finder.test(text));
  const finding = sources.filter(({ file, text }) => !file.startsWith("scripts/setup/") && finds(text));
  const changed = finding.map(({ file }) => file);
  const isOfNpmTest = (file: string) => isTest(file) && !/\.(system|soak)\.test\.ts$/.test(file);
  expect(dependents(dependencies(sources), changed).filter(isOfNpmTest)).toEqual([]);
});

test("lanes run side by side, the parts of a lane in turn, with the earlier ones at hand", async () => {
  const order: string[] = [];
  const gate = Promise.withResolvers<void>();
  const part = (name: string, purpose: string, ensure: (context: Context) => unknown) => ({
    name,
    for: purpose,
    ensure: async (context: Context) => {
      order.push(name);
      return await ensure(context);
    },
  });
  const lanes = {
    slow: [
      part("first", "start", () => gate.promise.then(() => "/first")),
      part("second", "start", ({ root, parts }) => ({ root, parts: { ...parts } })),
      part("never", "system", () => expect.unreachable()),
    ],
    quick: [part("other", "test", () => gate.resolve())],
  };
  const provided = await provide(lanes, { ...quiet(), root: "/root", purpose: "test" });
  expect(order).toEqual(["first", "other", "second"]);
  expect(provided).toMatchObject({
    first: "/first",
    other: undefined,
    second: { root: "/root", parts: { first: "/first" } },
  });
});

test("a failed lane is reported at once, and the others end before setup fails with its reason", async () => {
  const { lines, progress } = quiet();
  const ended: string[] = [];
  const lanes = {
    failing: [
      { name: "a", for: "start", ensure: () => Promise.reject(new SetupError("no a", ["get a"])) },
      { name: "b", for: "start", ensure: () => ended.push("b") },
    ],
    other: [
      {
        name: "c",
        for: "start",
        ensure: async () => {
          await expect.poll(() => lines.join("")).toContain("setup: no a\n  → get a");
          ended.push("c");
        },
      },
    ],
  };
  await expect(provide(lanes, { purpose: "start", progress })).rejects.toThrow("no a");
  expect(ended).toEqual(["c"]);
});

test("steps that run side by side share one sign of life", async () => {
  const lines: string[] = [];
  const progress = createProgress({ everyMs: 1, write: (text: string) => lines.push(text) > 0 });
  const beat = () => expect.poll(() => lines.join("")).toMatch(/still working: a \d+\.\d s, b \d+\.\d s\n/);
  await Promise.all([progress.during("a", "", beat), progress.during("b", "", beat)]);
  expect(lines.join("")).toMatch(/✓ a .*\n(.*\n)*.*✓ b /);
});

test.each([
  ["start", ["etcd", "kube-apiserver", "kubectl"]],
  ["test", ["etcd", "kube-apiserver", "kubectl", "kube-controller-manager", "kube-proxy", "kube-scheduler"]],
  [
    "system",
    [
      ...["etcd", "kube-apiserver", "kubectl", "kube-controller-manager", "kube-proxy", "kube-scheduler"],
      ...(process.platform === "linux" ? ["kubelet"] : []),
    ],
  ],
])("for %s, what is missing of the control plane is built in one run of Go", async (purpose, programs) => {
  await using folder = await temporaryFolder();
  const bin = path.join(folder.path, "bin");
  await mkdir(bin);
  const runs = path.join(folder.path, "runs");
  const go = path.join(bin, "go");
  const script = `#!/bin/sh
echo run >> ${runs}
while [ "$1" != -o ]; do shift; done
for package in "$@"; do case "$package" in
  */v3) name=server ;;
  */cmd/*) name="\${package##*/}" ;;
  *) continue ;;
esac; : > "$2$name"; /bin/chmod 755 "$2$name"; done
`;
  await writeFile(go, script);
  await chmod(go, 0o755);
  const env = {
    METALBRIDGE_CACHE: path.join(folder.path, "cache"),
    METALBRIDGE_ENVTEST_INDEX: "http://127.0.0.1:1/none",
    PATH: bin,
  };
  const ensure = () => ensureClusterParts({ ...quiet(), purpose, env });
  const [target = ""] = await ensure();
  expect((await readdir(target)).toSorted()).toEqual(programs.toSorted());
  expect(await ensure()).toEqual([target]);
  expect(await readFile(runs, "utf8")).toBe("run\n");
});
