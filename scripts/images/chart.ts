/** The chart as Helm packages and pushes it, with the same bytes whenever it is made. */
import { readdirSync, readFileSync, statSync } from "node:fs";
import { writeFile } from "node:fs/promises";
import path from "node:path";
import { parse } from "yaml";
import { gzipped, packTar } from "./layer.ts";
import { type ImageLayout, packArtifact } from "./layout.ts";

const CHART = path.join(import.meta.dirname, "..", "..", "charts", "metalbridge");
const CONFIG_TYPE = "application/vnd.cncf.helm.config.v1+json";
const CONTENT_TYPE = "application/vnd.cncf.helm.chart.content.v1.tar+gzip";
/** The chart of a checkout belongs to no published image. */
const NO_REPOSITORY = '\n  repository: ""\n';

export interface PackedChart {
  readonly version: string;
  /** What image.repository is by default. */
  readonly repository: string;
  readonly annotations: Readonly<Record<string, string>>;
}

/** Writes the archive to `file`; the layout has it as its only layer. */
export async function packChart(
  file: string,
  { version, repository, annotations }: PackedChart,
): Promise<ImageLayout> {
  const metadata = parse(readFileSync(path.join(CHART, "Chart.yaml"), "utf8"));
  if (metadata.version !== version || metadata.appVersion !== version)
    throw new Error(`Chart.yaml has the version ${metadata.version}, not ${version}: npm run generate`);
  const archive = await archiveOf(metadata.name, repository);
  await writeFile(file, archive);
  const config = { mediaType: CONFIG_TYPE, content: Buffer.from(JSON.stringify(metadata)) };
  const layers = [{ mediaType: CONTENT_TYPE, content: archive }];
  return packArtifact(config, layers, { references: [version], annotations });
}

/** Chart.yaml comes first: readers of a stream need it before the rest. */
async function archiveOf(top: string, repository: string): Promise<Buffer> {
  const names = new Set(["Chart.yaml", ...filesOfChart()]);
  const entries = [...names].map((name) => {
    const content = readFileSync(path.join(CHART, name));
    const isValues = name === "values.yaml";
    return {
      header: { name: `${top}/${name}`, mode: 0o644 },
      content: isValues ? withRepository(content.toString("utf8"), repository) : content,
    };
  });
  return gzipped(await packTar(entries));
}

function withRepository(values: string, repository: string): string {
  if (values.split(NO_REPOSITORY).length !== 2)
    throw new Error("values.yaml must have image.repository empty, once");
  return values.replace(NO_REPOSITORY, `\n  repository: ${JSON.stringify(repository)}\n`);
}

/** As .helmignore says, which holds names alone. */
function filesOfChart(): readonly string[] {
  const lines = readFileSync(path.join(CHART, ".helmignore"), "utf8").split("\n");
  const ignored = new Set(lines.filter((line) => line !== "" && !line.startsWith("#")));
  const pattern = [...ignored].find((name) => /[*?[!/]/.test(name));
  if (pattern !== undefined) throw new Error(`.helmignore: ${pattern} is a pattern, which is not read here`);
  return readdirSync(CHART, { recursive: true, encoding: "utf8" })
    .filter((name) => statSync(path.join(CHART, name)).isFile() && !ignored.has(path.basename(name)))
    .sort();
}
