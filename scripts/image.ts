/** `npm run image -- HOST/REPOSITORY:TAG [--push]`: the image of this checkout, for registries of your own. Needs no docker. */
import { rmSync } from "node:fs";
import path from "node:path";
import { bundleInto } from "./bundle/bundle.ts";
import { pushLayout } from "./images/push.ts";
import { parseReference } from "./images/registry.ts";
import { writeImage } from "./images/release.ts";
import { readProject } from "./project/project.ts";
import { ReleaseError, readArguments, runCommand } from "./project/release-error.ts";
import { root } from "./project/root.ts";
import { originOf, readSource } from "./project/source-tree.ts";

const out = path.join(root, "dist.image");

const USAGE = `Usage: npm run image -- HOST/REPOSITORY:TAG [--push]
  --push  push it, with the credentials of docker login, or of REGISTRY_USERNAME and REGISTRY_PASSWORD`;

const OPTIONS = {
  push: { type: "boolean", default: false },
  help: { type: "boolean", short: "h", default: false },
} as const;

async function buildImage(): Promise<void> {
  const { values, positionals } = readArguments({ allowPositionals: true, options: OPTIONS }, USAGE);
  if (values.help) return console.log(USAGE);
  const [reference, ...more] = positionals;
  if (reference === undefined || more.length > 0) throw new ReleaseError("name one image", USAGE);
  const { host, repository, tag } = parseReference(reference);
  const { version, url } = readProject(root);
  const source = readSource(root, version, { allowDirty: true });
  rmSync(out, { recursive: true, force: true });
  const bundle = path.join(out, "dist");
  await bundleInto(bundle);
  const place = { repository: `${host}/${repository}`, tag };
  const facts = { version, url, date: source.date, commit: originOf(source) };
  const image = await writeImage(out, { ...facts, bundle, ...place });
  rmSync(bundle, { recursive: true });
  console.log(`${path.relative(root, image.file)}: ${image.digest}`);
  if (values.push) console.log(`pushed ${reference}@${await pushLayout(image.folder, reference)}`);
}

await runCommand(buildImage, "image");
