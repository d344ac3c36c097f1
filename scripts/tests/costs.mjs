/** Costs of test files: CPU seconds of a file with all that it starts. Pure. */

/**
 * A file of `npm test` that takes more needs a line `CPU: reason` in its first comment. These are seconds of the machine whose
 * costs were committed first. The committed costs are held to it exactly.
 */
export const MAX_CPU_SECONDS = 15;
/** Fewer files do not tell how fast this machine is. */
const MIN_KNOWN = 20;
/** The sums of two runs on one machine differ by less. */
const NOISE = 0.15;
/** Three known files took more than 1.5 times as much in one run, depending on what ran beside them. */
const NOISE_OF_FILE = 1;
const SHOWN = 25;
/** Files below are not worth a line in the committed costs. */
const MIN_SAVED_SECONDS = 1;

/**
 * How many seconds this machine takes for one second of the committed costs: the median of the files that both know, so that
 * files which have grown do not count. Undefined where too few are known.
 */
function paceOf(files, committed) {
  const ratios = files
    .map(({ name, cpuSeconds }) => cpuSeconds / committed?.files[name]?.cpuSeconds)
    .filter((ratio) => ratio > 0 && ratio < Number.POSITIVE_INFINITY)
    .toSorted((one, other) => one - other);
  return ratios.length < MIN_KNOWN ? undefined : ratios[Math.floor(ratios.length / 2)];
}

/**
 * `files` is what the reporter wrote, `committed` the saved costs of a whole run, `reasonOf(name)` the stated reason of a file.
 * Returns lines to print, and the names of files that cost too much without a reason: none where too few of the files are known.
 */
export function judgeCosts(files, { committed, reasonOf, isWhole }) {
  const measured = files.filter(({ cpuSeconds }) => cpuSeconds !== undefined);
  const total = sum(measured.map(({ cpuSeconds }) => cpuSeconds));
  const pace = paceOf(measured, committed);
  const isTooMuch = ({ name, cpuSeconds }) =>
    cpuSeconds / pace > limitOf(name, committed) && reasonOf(name) === undefined;
  const tooMuch = (pace === undefined ? [] : measured).filter(isTooMuch).map(({ name }) => name);
  const totals = renderTotal({ total, measured, committed: isWhole ? committed : undefined, pace });
  return { lines: [...renderMost(files), ...totals], tooMuch };
}

/** A file that has been within the limit is not over it for noise. */
function limitOf(name, committed) {
  const known = committed?.files[name]?.cpuSeconds ?? 0;
  return known > MAX_CPU_SECONDS ? MAX_CPU_SECONDS : Math.max(MAX_CPU_SECONDS, known * (1 + NOISE_OF_FILE));
}

/** The committed files that need a reason and have none. */
export function unexplainedCosts({ files }, reasonOf) {
  return Object.keys(files).filter(
    (name) => files[name].cpuSeconds > MAX_CPU_SECONDS && reasonOf(name) === undefined,
  );
}

/** Why a test file may take more, by its text: a line `CPU: reason` at its top; those of test:system may. */
export function statedReason(name, text) {
  if (/\.(system|soak)\.test\.ts$/.test(name)) return "system";
  const [head] = text.split("\nimport ");
  return /\bCPU: (.+)/.exec(head)?.[1];
}

/** The costs of a whole run as they are committed, in seconds of the machine of the costs that were committed before. */
export function costsToSave(files, committed) {
  const pace = paceOf(files, committed) ?? 1;
  const total = sum(files.map(({ cpuSeconds = 0 }) => cpuSeconds)) / pace;
  const kept = files.filter(
    ({ cpuSeconds = 0, wallSeconds }) => Math.max(cpuSeconds, wallSeconds) >= MIN_SAVED_SECONDS,
  );
  const rows = kept
    .toSorted((one, other) => (one.name < other.name ? -1 : 1))
    .map(({ name, cpuSeconds = 0, wallSeconds }) => [
      name,
      { cpuSeconds: round(cpuSeconds / pace), wallSeconds: round(wallSeconds / pace) },
    ]);
  return { totalCpuSeconds: Math.round(total), files: Object.fromEntries(rows) };
}

/** Nothing for a handful of files, where vitest's own lines say it all. */
function renderMost(files) {
  if (files.length <= 10) return [];
  const most = files.toSorted((one, other) => costOf(other) - costOf(one)).slice(0, SHOWN);
  const column = (seconds) => (seconds === undefined ? "?" : seconds.toFixed(1)).padStart(7);
  return [
    "",
    `the ${most.length} most expensive test files:`,
    "  CPU s  wall s",
    ...most.map(
      ({ name, cpuSeconds, wallSeconds }) => `${column(cpuSeconds)} ${column(wallSeconds)}  ${name}`,
    ),
  ];
}

function renderTotal({ total, measured, committed, pace }) {
  if (measured.length === 0) return [];
  const line = `test files took ${Math.round(total)} CPU-s`;
  if (committed === undefined || pace === undefined) return [line];
  const ratio = total / pace / committed.totalCpuSeconds;
  const percent = Math.round((ratio - 1) * 100);
  const compared = `${line}, at this machine's pace ${percent < 0 ? "" : "+"}${percent} % of the committed ${committed.totalCpuSeconds} (${pace.toFixed(2)} s for a second)`;
  if (ratio <= 1 + NOISE) return [compared];
  return [compared, `warning: more than the noise of two runs. ${renderGrown(measured, committed, pace)}`];
}

function renderGrown(measured, { files }, pace) {
  const grown = measured
    .map(({ name, cpuSeconds }) => ({ name, by: cpuSeconds / pace - (files[name]?.cpuSeconds ?? 0) }))
    .toSorted((one, other) => other.by - one.by)
    .slice(0, 3)
    .map(({ name, by }) => `${name} +${by.toFixed(1)} s`);
  return `Grown most: ${grown.join(", ")}`;
}

function costOf({ cpuSeconds, wallSeconds }) {
  return cpuSeconds ?? wallSeconds;
}

function sum(numbers) {
  return numbers.reduce((total, number) => total + number, 0);
}

function round(seconds) {
  return Math.round(seconds * 10) / 10;
}
