/** The image and the chart of a release, as scripts/images writes them, and where they will be published. */
import { type Artifact, writeChart, writeImage } from "../images/release.ts";
import { originOf } from "../project/source-tree.ts";
import type { ImagesInput } from "./build-release.ts";

type Digests = Readonly<Record<string, string>>;

export async function writeImageAndChart(out: string, input: ImagesInput): Promise<Digests> {
  const { bundle, project } = input;
  const image = await writeImage(out, { ...sourceOf(input), bundle, repository: project.image });
  return { [project.image]: hexOf(image), ...(await writeChartOnly(out, input)) };
}

export async function writeChartOnly(out: string, input: ImagesInput): Promise<Digests> {
  const { project } = input;
  const chart = await writeChart(out, { ...sourceOf(input), repository: project.image });
  return { [project.chart]: hexOf(chart) };
}

function sourceOf({ project, source }: ImagesInput) {
  return { version: project.version, url: project.url, date: source.date, commit: originOf(source) };
}

function hexOf({ digest }: Artifact): string {
  return digest.replace("sha256:", "");
}
