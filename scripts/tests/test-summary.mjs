/** Counts of a test run, such that nothing that went wrong can look like a success. */
import { relative } from "node:path";
import { stripVTControlCharacters } from "node:util";

/** Characters of an error that is named again at the end of a run. */
const MAX_ERROR = 400;

/**
 * Pure. `report` is vitest's JSON, undefined when it wrote none. A file that could not be loaded holds no test, so it
 * counts as one failure itself, and so does a run that failed without any failed test, or has no report, and each file that costs
 * too much.
 */
export function summarize(report, exitCode, tooExpensive = 0) {
  const files = report?.testResults ?? [];
  const tests = files.flatMap((file) => file.assertionResults ?? []);
  const count = (...states) => tests.filter((one) => states.includes(one.status)).length;
  const brokenFiles = files.filter((file) => file.status === "failed" && !hasFailedTest(file)).length;
  const passed = count("passed");
  const skipped = tests.filter((one) => ["skipped", "pending", "todo", "disabled"].includes(one.status));
  const known = count("failed") + brokenFiles;
  const unknown = known === 0 && (exitCode !== 0 || report === undefined) ? 1 : 0;
  const failed = known + unknown + tooExpensive;
  return {
    passed,
    failed,
    skipped: skipped.map((one) => one.fullName),
    line: `${passed} passed, ${failed} failed, ${skipped.length} skipped`,
  };
}

/** A line for each test that failed, and for each file that could not be run: where, and the first lines of its error. */
export function failures(report, root) {
  return (report?.testResults ?? []).flatMap((file) => {
    const where = relative(root, file.name);
    const failed = (file.assertionResults ?? []).filter((one) => one.status === "failed");
    if (failed.length === 0) return file.status === "failed" ? [renderFailure(where, file.message)] : [];
    return failed.map((one) => renderFailure(`${where} > ${one.fullName}`, one.failureMessages?.[0]));
  });
}

function renderFailure(where, message = "") {
  const [text] = stripVTControlCharacters(message).split(/\n {4}at /);
  return `failed test: ${where}: ${text.replaceAll(/\s+/g, " ").slice(0, MAX_ERROR)}`;
}

/** Files in which a test, a hook or the import failed. */
export function failedFiles(report) {
  return (report?.testResults ?? []).filter(({ status }) => status === "failed").map(({ name }) => name);
}

/**
 * Pure. Whether a second run of a failed file clears it: each test that failed has passed now, and at least one test has. A file
 * whose tests are skipped the second time, or that the second report does not have, is not cleared.
 */
export function passedAlone(name, report, rerun) {
  const testsOf = (one) =>
    (one?.testResults ?? []).flatMap((file) => (file.name === name ? file.assertionResults : []));
  const failed = testsOf(report).filter((one) => one.status === "failed");
  const passed = new Set(testsOf(rerun).flatMap((one) => (one.status === "passed" ? [one.fullName] : [])));
  return (
    !failedFiles(rerun).includes(name) && passed.size > 0 && failed.every((one) => passed.has(one.fullName))
  );
}

/** The first report, with the second results of the files that ran twice in place of the first ones. */
export function withRerun(report, rerun) {
  const names = new Set((rerun?.testResults ?? []).map(({ name }) => name));
  const kept = report.testResults.filter(({ name }) => !names.has(name));
  return { ...report, testResults: [...kept, ...(rerun?.testResults ?? [])] };
}

/** Pure. The arguments of vitest that select projects: `--project NAME` and `--project=NAME`. */
export function projectsOf(args) {
  return args.filter((arg, index) => arg.startsWith("--project") || args[index - 1] === "--project");
}

function hasFailedTest(file) {
  return (file.assertionResults ?? []).some((one) => one.status === "failed");
}
