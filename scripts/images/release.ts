/** Files of a release besides the archives: the image for two architectures, and the chart. The same input gives the same bytes. */
import { mkdirSync } from "node:fs";
import path from "node:path";
import { packChart } from "./chart.ts";
import { DEBIAN_ARCHITECTURES } from "./debian-lock.ts";
import { type ImageLayout, packImage, writeFolder, writeTar } from "./layout.ts";
import { ourImage } from "./ours.ts";

export interface PublishedSource {
  readonly version: string;
  /** Date of the commit: the only date in the image. */
  readonly date: Date;
  /** Absent where the files are not those of a commit. */
  readonly commit?: string | undefined;
  /** The project's page. */
  readonly url: string;
}

export interface ReleaseImageInput extends PublishedSource {
  /** What esbuild wrote. */
  readonly bundle: string;
  /** Without a tag, such as ghcr.io/OWNER/metalbridge. */
  readonly repository: string;
  /** The version where absent. */
  readonly tag?: string;
}

export interface ChartInput extends PublishedSource {
  /** The image's: the default of the chart's value image.repository. */
  readonly repository: string;
}

export interface Artifact {
  /** What a registry will call it: sha256:… of the index, or of the manifest. */
  readonly digest: string;
  /** An OCI image layout, for scripts/images/push.ts. */
  readonly folder: string;
  /** For a download: a tar of that folder, or the chart's archive. */
  readonly file: string;
}

/** Into `out/image` and `out/metalbridge-VERSION-image.tar`. Needs dpkg-deb, and a Debian mirror for what is not in the cache. */
export async function writeImage(out: string, input: ReleaseImageInput): Promise<Artifact> {
  const { version, repository, tag = version, bundle, date } = input;
  mkdirSync(out, { recursive: true });
  const labels = labelsOf(input, {
    title: "metalbridge",
    description: "The controller of Metalbridge, its density API, and what reports a node.",
  });
  const platforms = [];
  for (const architecture of DEBIAN_ARCHITECTURES)
    platforms.push(await ourImage({ architecture, bundle, compression: "gzip", labels }));
  const references = [`${repository}:${tag}`];
  const created = date.toISOString();
  const layout = packImage({ references, created, platforms, annotations: labels });
  const file = path.join(out, `metalbridge-${version}-image.tar`);
  await writeTar(layout, file);
  return { digest: layout.digest, folder: await folderOf(layout, path.join(out, "image")), file };
}

/** Into `out/chart` and `out/metalbridge-VERSION.tgz`, which is what `helm package` makes. */
export async function writeChart(out: string, input: ChartInput): Promise<Artifact> {
  const { version } = input;
  const file = path.join(out, `metalbridge-${version}.tgz`);
  mkdirSync(out, { recursive: true });
  const layout = await packChart(file, { ...input, annotations: labelsOf(input, { title: "metalbridge" }) });
  return { digest: layout.digest, folder: await folderOf(layout, path.join(out, "chart")), file };
}

async function folderOf(layout: ImageLayout, folder: string): Promise<string> {
  await writeFolder(layout, folder);
  return folder;
}

function labelsOf(
  { version, commit, url, date }: PublishedSource,
  more: Readonly<Record<string, string>>,
): Readonly<Record<string, string>> {
  const labels: Readonly<Record<string, string | undefined>> = {
    ...more,
    version,
    url,
    source: url,
    revision: commit,
    licenses: "Apache-2.0",
    created: date.toISOString(),
  };
  return Object.fromEntries(
    Object.entries(labels).flatMap(([name, value]) =>
      value === undefined ? [] : [[`org.opencontainers.image.${name}`, value]],
    ),
  );
}
