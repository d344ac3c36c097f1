/** `npm run claims`: holds the memory claim against the buffers that the real llama-server prints, over the whole grid, and writes the table into docs/memory.md. */
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { MODEL_ARCHITECTURES, type SparseArchitecture } from "../cli/calibrate/architectures.ts";
import { readPartsConfig } from "../local/control-plane/config.ts";
import { findLlamaServer } from "../local/control-plane/engine-programs.ts";
import { type ClaimComparison, compareClaims } from "./claims/compare.ts";
import { type ClaimCase, pairwiseCases } from "./claims/grid.ts";

const PAGE = new URL("../docs/memory.md", import.meta.url);
const [BEGIN, END] = ["<!-- claims: begin, by npm run claims -->", "<!-- claims: end -->"];
const MOST = 0.05;
const LEAST = -0.02;

const { values } = parseArgs({
  options: {
    seed: { type: "string", default: "1" },
    only: { type: "string" },
    brief: { type: "boolean", default: false },
    write: { type: "boolean", default: false },
  },
});

const program = findLlamaServer(readPartsConfig());
if (program === undefined) throw new Error("there is no llama-server here: npm run setup gets one");
const chosen = (Object.keys(MODEL_ARCHITECTURES) as SparseArchitecture[]).filter(
  (name) => values.only === undefined || values.only.split(",").includes(name),
);
const folder = await mkdtemp(join(tmpdir(), "metalbridge-claims-"));
const rows: string[] = [];
let outside = 0;
let cases = 0;
try {
  for (const architecture of chosen) {
    const grid = pairwiseCases({ seed: Number(values.seed), only: architecture, isBrief: values.brief });
    const results: ClaimComparison[] = [];
    for (const one of grid) {
      const result = await compareClaims(program, folder, one);
      results.push(result);
      if (result.error > MOST || result.error < LEAST) report(one, result);
    }
    cases += results.length;
    outside += results.filter(({ error }) => error > MOST || error < LEAST).length;
    rows.push(rowOf(architecture, results));
    process.stdout.write(`${rows.at(-1)}\n`);
  }
} finally {
  await rm(folder, { recursive: true });
}
process.stdout.write(`${cases} cases, ${outside} outside of −2 % … +5 %\n`);
if (values.write) await writeTable();
process.exitCode = outside === 0 ? 0 : 1;

function rowOf(architecture: string, results: readonly ClaimComparison[]): string {
  const errors = results.map(({ error }) => error).sort((a, b) => a - b);
  const within = errors.filter((error) => Math.abs(error) <= 0.001).length;
  const at = (part: number) => percent(errors[Math.round(part * (errors.length - 1))] ?? 0);
  const compute = results.map(({ computeError }) => computeError);
  const cells = [
    architecture,
    String(results.length),
    at(0),
    at(0.5),
    at(1),
    `${Math.round((100 * within) / errors.length)} %`,
    `${percent(Math.min(...compute))} … ${percent(Math.max(...compute))}`,
  ];
  return `| ${cells.join(" | ")} |`;
}

function percent(part: number): string {
  const text = (100 * part).toFixed(2).replace("-", "−");
  return `${/^−?0\.00$/.test(text) ? "0.00" : text} %`;
}

function report(one: ClaimCase, { error, estimated, printed }: ClaimComparison): void {
  process.stdout.write(`${percent(error)} ${JSON.stringify({ ...one, estimated, printed })}\n`);
}

async function writeTable(): Promise<void> {
  const page = await readFile(PAGE, "utf8");
  const [before, rest] = page.split(BEGIN);
  const after = rest?.split(END)[1];
  if (before === undefined || after === undefined)
    throw new Error("docs/memory.md has no place for the table");
  const table = [
    "| architecture | cases | lowest error | median | highest error | within ±0.1 % | compute buffers alone |",
    "|---|---|---|---|---|---|---|",
    ...rows,
  ].join("\n");
  await writeFile(PAGE, `${before}${BEGIN}\n${table}\n${END}${after}`);
}
