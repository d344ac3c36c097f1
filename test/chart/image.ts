/** What the Dockerfile puts into the image, and how the image starts. */
import { cpSync, mkdirSync, readFileSync } from "node:fs";
import path from "node:path";
import { root } from "../docs/pages.ts";

export interface Image {
  /** Paths of the build context that are copied, and where to. */
  readonly copies: readonly { readonly from: readonly string[]; readonly to: string }[];
  /** Paths that .dockerignore lets through. */
  readonly allowed: readonly string[];
  readonly workdir: string;
  readonly entrypoint: readonly string[];
  readonly user: string;
}

export function readImage(): Image {
  const lines = readFileSync(path.join(root, "Dockerfile"), "utf8").split("\n");
  const all = (instruction: string) =>
    lines.flatMap((line) => (line.startsWith(`${instruction} `) ? [line.slice(instruction.length + 1)] : []));
  const ignored = readFileSync(path.join(root, ".dockerignore"), "utf8").split("\n");
  const rules = ignored.filter((line) => line !== "" && !line.startsWith("#"));
  if (rules[0] !== "*") throw new Error(".dockerignore must begin with what leaves out everything");
  return {
    copies: all("COPY").map((line) => {
      const words = line.split(" ");
      return { from: words.slice(0, -1), to: words.at(-1) ?? "" };
    }),
    allowed: rules.slice(1).map((rule) => rule.replace(/^!/, "")),
    workdir: all("WORKDIR")[0] ?? "/",
    entrypoint: JSON.parse(all("ENTRYPOINT")[0] ?? "[]"),
    user: all("USER")[0] ?? "root",
  };
}

/** The image's files in `folder`, with `dist` in place of dist/; returns the program to run there. */
export function layOut(folder: string, dist: string): string {
  const { copies, workdir, entrypoint } = readImage();
  for (const { from, to } of copies) {
    for (const source of from) {
      const isFolder = source.endsWith("/");
      const target = path.join(folder, workdir, isFolder ? to : path.join(to, path.basename(source)));
      mkdirSync(path.dirname(target), { recursive: true });
      cpSync(source === "dist/" ? dist : path.join(root, source), target, { recursive: true });
    }
  }
  return path.join(folder, entrypoint.at(-1) ?? "");
}
