/**
 * `npx tsx scripts/release/publish/push.ts RELEASE`: image and chart of a release folder to the registry of the project. Prints each
 * as NAME=REPOSITORY@DIGEST.
 */
import path from "node:path";
import { pushLayout } from "../../images/push.ts";
import { readProject } from "../../project/project.ts";
import { ReleaseError, runCommand } from "../../project/release-error.ts";

await runCommand(async () => {
  const folder = process.argv[2];
  if (folder === undefined)
    throw new ReleaseError(
      "name the folder of the release",
      "npx tsx scripts/release/publish/push.ts release",
    );
  const { version, image, chart } = readProject(path.resolve(import.meta.dirname, "../../.."));
  for (const [name, repository] of Object.entries({ image, chart })) {
    const digest = await pushLayout(path.join(folder, name), `${repository}:${version}`);
    console.log(`${name}=${repository}@${digest}`);
  }
});
