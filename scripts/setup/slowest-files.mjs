/** A vitest reporter: the files that took longest, with their hooks and imports, after everything else. */

const SHOWN = 40;

// biome-ignore lint/style/noDefaultExport: vitest loads a reporter by its default export
export default class SlowestFiles {
  #files = [];

  onTestModuleEnd(module) {
    const { collectDuration, setupDuration, duration } = module.diagnostic();
    this.#files.push({ name: module.relativeModuleId, ms: collectDuration + setupDuration + duration });
  }

  onTestRunEnd() {
    for (const line of renderSlowest(this.#files)) console.log(line);
  }
}

/** Pure. Nothing for a handful of files, where vitest's own lines say it all. */
export function renderSlowest(files, shown = SHOWN) {
  if (files.length <= 10) return [];
  const slowest = files.toSorted((one, other) => other.ms - one.ms).slice(0, shown);
  const seconds = (ms) => (ms / 1_000).toFixed(1).padStart(7);
  return [
    "",
    `slowest ${slowest.length} files:`,
    ...slowest.map(({ name, ms }) => `${seconds(ms)} s  ${name}`),
  ];
}
