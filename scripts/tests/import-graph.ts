/** Finds the tests that a change can break, by the imports of all files. Pure. */
import path from "node:path";
import { importsOf } from "../structure/imports.ts";

export interface ImportingFile {
  /** Relative to the repository's root, with slashes. */
  readonly file: string;
  readonly text: string;
}

export interface DependencyGraph {
  readonly sources: readonly ImportingFile[];
  /** Files that import a file, or run it. */
  readonly usersOf: ReadonlyMap<string, ReadonlySet<string>>;
}

/** The program whose bundle is built from it: who starts the program depends on all of its code. */
const PROGRAM = "cli/main.ts";
const STARTS_PROGRAM = /metalbridge\.mjs/;
/** A change of these can break every test. */
const EVERYTHING =
  /^(package(-lock)?\.json|vitest\.config\.ts|tsconfig\.json|scripts\/build\.ts|test\/(cluster\/global-setup|measure-file)\.ts)$/;
/** They start programs of ours, control planes included. A unit test imports none of them. */
const STARTERS = [
  "test/cluster/cluster.ts",
  "test/bed/part.ts",
  "test/bed/release.ts",
  "test/bed/run.ts",
  "test/cli/program.ts",
  "local/control-plane/start.ts",
];

export function dependencies(sources: readonly ImportingFile[]): DependencyGraph {
  const usersOf = new Map<string, Set<string>>();
  const use = (user: string, used: string) => usersOf.set(used, (usersOf.get(used) ?? new Set()).add(user));
  for (const { file, text } of sources) {
    for (const { to, isPackage, isTypeOnly } of importsOf(file, text)) {
      // Types are checked by the compiler.
      if (!isPackage && !isTypeOnly) use(file, to);
    }
    if (file !== "cli/metalbridge.mjs" && STARTS_PROGRAM.test(text)) use(file, PROGRAM);
  }
  return { sources, usersOf };
}

export const isTest = (file: string): boolean => /\.test\.tsx?$/.test(file);

/** Files that depend on one of the changed files, these included. */
export function dependents(graph: DependencyGraph, changed: readonly string[]): readonly string[] {
  if (changed.some((file) => EVERYTHING.test(file))) return graph.sources.map(({ file }) => file);
  const found = new Set<string>();
  const queue = changed.flatMap((file) => (isCode(file) ? [file] : readersOf(graph, file)));
  for (let file = queue.pop(); file !== undefined; file = queue.pop()) {
    if (found.has(file)) continue;
    found.add(file);
    queue.push(...(graph.usersOf.get(file) ?? []));
  }
  return [...found];
}

/** Tests that start no program of ours, by what they import. */
export function unitTests(graph: DependencyGraph): readonly string[] {
  const starting = new Set(dependents(graph, STARTERS));
  return graph.sources
    .map(({ file }) => file)
    .filter(
      (file) =>
        isTest(file) && !/\.(cluster|engine|system|soak)\.test\.ts$/.test(file) && !starting.has(file),
    );
}

const isCode = (file: string): boolean => /\.(ts|tsx|mjs)$/.test(file);

/** Code that names a file of another kind, and tests that name the folder that they read as a whole. */
function readersOf({ sources }: DependencyGraph, file: string): readonly string[] {
  const name = path.posix.basename(file);
  const folder = path.posix.basename(path.posix.dirname(file));
  const namesFile = new RegExp(`["'\`/]${escaped(name)}["'\`]`);
  const namesFolder = new RegExp(`["'\`/]${escaped(folder)}["'\`]`);
  return sources
    .filter(
      ({ file: source, text }) => namesFile.test(text) || (isForTests(source) && namesFolder.test(text)),
    )
    .map((source) => source.file);
}

const isForTests = (file: string): boolean => isTest(file) || /(^test|\/testing)\//.test(file);

function escaped(text: string): string {
  return text.replace(/[.*+?^${}()|[\]\\]/g, "\\$&");
}
