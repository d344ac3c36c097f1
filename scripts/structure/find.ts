/** What is wrong with the structure of the code: forbidden imports, effects in pure folders, circles of files and folders. */
import path from "node:path";
import { circlesIn } from "./circles.ts";
import { type Import, importsOf } from "./imports.ts";
import { BUDGETS, LAYERS, type Layer, RING_LIMIT, RINGS_ABOVE_LIMIT } from "./layers.ts";

export interface SourceText {
  /** Relative to the repository's root, with slashes. */
  readonly file: string;
  readonly text: string;
}

/** Tests, test doubles and fixtures may import anything, and nothing else may import them. */
const isForTests = (file: string) => /\.test\.tsx?$|(^|\/)(testing|fixtures)\/|^test\//.test(file);
const PURE_BUILTINS = new Set(["node:crypto", "node:net", "node:path/posix"]);
const PACKAGES_WITH_EFFECTS = /^(node:|pino$|@kubernetes\/|systeminformation$|undici$)/;

/** One sentence per finding, sorted. */
export function findStructure(sources: readonly SourceText[]): string[] {
  const product = sources.filter(({ file }) => !isForTests(file));
  const imports = product.flatMap(({ file, text }) => importsOf(file, text));
  return [...imports.flatMap(forbidden), ...startedPrograms(sources), ...circles(imports)].toSorted();
}

export interface Room {
  readonly name: string;
  readonly files: number;
  readonly lines: number;
  readonly budget: number;
  /** Folders of the largest ring. */
  readonly ring: readonly string[];
}

/** The weight and the largest ring of each room, product code only. */
export function weighRooms(sources: readonly SourceText[], budgets = BUDGETS): Room[] {
  return Object.entries(budgets).map(([name, budget]) => {
    const own = sources.filter(({ file }) => file.startsWith(`${name}/`) && !isForTests(file));
    const lines = own.reduce((sum, { text }) => sum + text.split("\n").length - 1, 0);
    return { name, files: own.length, lines, budget, ring: largestRing(own) };
  });
}

/** The most folders of these files that import each other in a circle, types counted; each sub-folder is a folder of its own. */
export function largestRing(sources: readonly SourceText[]): readonly string[] {
  const folders = new Set(sources.map(({ file }) => path.posix.dirname(file)));
  const within = sources
    .flatMap(({ file, text }) => importsOf(file, text))
    .filter(({ to }) => folders.has(path.posix.dirname(to)));
  const rings = circlesIn(graphOf(within, path.posix.dirname));
  return rings.toSorted((one, other) => other.length - one.length)[0] ?? [];
}

/** One sentence for each room with a ring of more folders than it may have. */
export function findRings(rooms: readonly Room[], exceptions = RINGS_ABOVE_LIMIT): string[] {
  return rooms.flatMap(({ name, ring }) => {
    const limit = exceptions[name] ?? RING_LIMIT;
    return ring.length > limit
      ? [`${name}/ has a ring of ${ring.length} folders, more than ${limit}: ${ring.join(", ")}`]
      : [];
  });
}

/** One sentence for each room above its budget. */
export function findHeavyRooms(rooms: readonly Room[]): string[] {
  return rooms
    .filter(({ lines, budget }) => lines > budget)
    .map(
      ({ name, lines, budget }) =>
        `${name}/ has ${lines} lines, ${lines - budget} more than its budget: make it lighter, or take them from the budget of another room (scripts/structure/layers.ts)`,
    );
}

function layerOf(file: string): Layer | undefined {
  return LAYERS.map((layer) => ({ ...layer, folder: folderOf(layer, file) }))
    .filter(({ folder }) => file.startsWith(folder))
    .toSorted((one, other) => other.folder.length - one.folder.length)[0];
}

/** With the name that the file has where the layer has `*`. */
function folderOf({ folder }: Layer, file: string): string {
  const names = file.split("/");
  return folder
    .split("/")
    .map((name, depth) => (name === "*" ? (names[depth] ?? name) : name))
    .join("/");
}

/** Developer commands share fixtures with tests, and the one builder of fleets. */
const mayUseTestCode = ({ from, to }: Import) =>
  from.startsWith("scripts/") && (to.startsWith("test/bed/") || !to.startsWith("test/"));

/** Any import of a program of npm, also by a test, runs it. */
function startedPrograms(sources: readonly SourceText[]): string[] {
  const programs = new Set(sources.flatMap(({ file }) => (/^scripts\/[^/]+\.ts$/.test(file) ? [file] : [])));
  return sources
    .flatMap(({ file, text }) => importsOf(file, text))
    .filter(({ to }) => programs.has(to))
    .map(
      ({ from, to }) =>
        `${from} imports ${to}, which runs on import: move what it needs into a file of its own`,
    );
}

function forbidden(found: Import): string[] {
  const layer = layerOf(found.from);
  if (layer === undefined) {
    const isLoose = found.from.includes("/");
    return isLoose ? [`${found.from} is in no layer: add its folder to scripts/structure/layers.ts`] : [];
  }
  if (found.isPackage) {
    const hasEffects = PACKAGES_WITH_EFFECTS.test(found.to) && !PURE_BUILTINS.has(found.to);
    return layer.isPure === true && hasEffects && !found.isTypeOnly
      ? [`${found.from} imports ${found.to}, but ${layer.folder} is pure: take a port as an argument`]
      : [];
  }
  if (isForTests(found.to) && !mayUseTestCode(found))
    return [`${found.from} imports ${found.to}, which is for tests`];
  const isAllowed = [layer.folder, ...layer.imports].some((allowed) => found.to.startsWith(allowed));
  if (!isAllowed)
    return [`${found.from} imports ${found.to}: ${layer.folder} must not (scripts/structure/layers.ts)`];
  const isEffect = layer.isPure === true && !found.isTypeOnly && layerOf(found.to)?.isPure !== true;
  const areTypes = layer.imports.includes(found.to);
  return isEffect && !areTypes
    ? [`${found.from} imports ${found.to}, which has effects: ${layer.folder} is pure`]
    : [];
}

/** A folder that is read with more others than this by types alone cannot be read on its own. */
const MAX_CIRCLE_OF_TYPES = 3;

/** Files must not circle even by types; folders must not circle at run time, and in the controller hardly by types. */
function circles(imports: readonly Import[]): string[] {
  const own = imports.filter(({ isPackage }) => !isPackage);
  const atRunTime = own.filter(({ isTypeOnly }) => !isTypeOnly);
  const inController = own.filter(({ from, to }) =>
    [from, to].every((file) => file.startsWith("controller/")),
  );
  return [
    ...circlesIn(graphOf(own, (file) => file)).map((files) => `circle of files: ${files.join(", ")}`),
    ...circlesIn(graphOf(atRunTime, path.posix.dirname)).map(
      (folders) => `circle of folders: ${folders.join(", ")}`,
    ),
    ...circlesIn(graphOf(inController, path.posix.dirname))
      .filter((folders) => folders.length > MAX_CIRCLE_OF_TYPES)
      .map((folders) => `circle of folders by types: ${folders.join(", ")}`),
  ];
}

function graphOf(imports: readonly Import[], nodeOf: (file: string) => string): Map<string, Set<string>> {
  const graph = new Map<string, Set<string>>();
  for (const { from, to } of imports) {
    const [source, target] = [nodeOf(from), nodeOf(to)];
    if (source === target) continue;
    const targets = graph.get(source) ?? new Set();
    graph.set(source, targets.add(target));
  }
  return graph;
}

/** The imports that tie a circle or ring of folders together, of a finding that names one. */
export function importsInCircle(finding: string, sources: readonly SourceText[]): string[] {
  const [, kind, names] = finding.match(/(circle|ring) of [^:]*folders[^:]*: (.*)$/) ?? [];
  const folders = names?.split(", ") ?? [];
  const isIn = (file: string) => folders.includes(path.posix.dirname(file));
  return sources
    .filter(({ file }) => isIn(file) && !isForTests(file))
    .flatMap(({ file, text }) => importsOf(file, text))
    .filter(({ to, isPackage, isTypeOnly }) => !isPackage && (kind === "ring" || !isTypeOnly) && isIn(to))
    .filter(({ from, to }) => path.posix.dirname(from) !== path.posix.dirname(to))
    .map(({ from, to }) => `${from} -> ${to}`);
}
