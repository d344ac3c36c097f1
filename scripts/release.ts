/** `npm run release`: every artifact of a release into release/, from the commit that is checked out. */
import path from "node:path";
import { PLATFORMS, pinnedNode } from "./project/node.ts";
import { readProject } from "./project/project.ts";
import { ReleaseError, readArguments, runCommand } from "./project/release-error.ts";
import { root } from "./project/root.ts";
import { readSource } from "./project/source-tree.ts";
import { buildRelease } from "./release/build-release.ts";
import { writeImageAndChart } from "./release/images.ts";
import { verifyRelease } from "./release/rebuild.ts";

const USAGE = `Usage: npm run release [-- OPTIONS]
  --out FOLDER            where to (release)
  --platforms A,B         only these (${PLATFORMS.join(",")})
  --base-url URL          where the files will be downloaded from (releases of the repository in package.json)
  --repository OWNER/NAME stop unless package.json names this repository
  --allow-dirty           from files that differ from the commit; writes no provenance
  --verify                build a second time in a clone, and compare every byte`;

const OPTIONS = {
  out: { type: "string", default: "release" },
  platforms: { type: "string", default: PLATFORMS.join(",") },
  "base-url": { type: "string" },
  repository: { type: "string" },
  "allow-dirty": { type: "boolean", default: false },
  verify: { type: "boolean", default: false },
  help: { type: "boolean", short: "h", default: false },
} as const;

await runCommand(async () => {
  const { values } = readArguments({ options: OPTIONS }, USAGE);
  if (values.help) return console.log(USAGE);
  const project = readProject(root);
  if (values.repository !== undefined && values.repository !== project.slug)
    throw new ReleaseError(
      `package.json names the repository ${project.slug}, and not ${values.repository}`,
      "set repository.url in package.json, run npm run generate, and commit",
    );
  if (values.verify && values["allow-dirty"])
    throw new ReleaseError("--verify builds a commit, and not other files", "leave one of the two out");
  const source = readSource(root, project.version, { allowDirty: values["allow-dirty"] });
  const out = path.resolve(values.out);
  const platforms = values.platforms.split(",");
  const baseUrl = values["base-url"] ?? project.downloads;
  const started = performance.now();
  const sums = await buildRelease({
    project,
    source,
    platforms,
    out,
    baseUrl,
    nodeFor: pinnedNode,
    writeImages: writeImageAndChart,
  });
  for (const [name, sum] of Object.entries(sums)) console.log(`${sum}  ${name}`);
  const seconds = Math.round((performance.now() - started) / 1000);
  console.log(`${out}: version ${project.version} of commit ${source.commit}, ${seconds} s`);
  if (!values.verify) return;
  verifyRelease(root, source.commit, out, ["--platforms", values.platforms, "--base-url", baseUrl]);
  console.log("a second build in a clone has the same bytes");
});
