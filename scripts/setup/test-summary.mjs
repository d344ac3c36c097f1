/** Counts of a test run, such that nothing that went wrong can look like a success. */

/**
 * Pure. `report` is vitest's JSON, undefined when it wrote none. A file that could not be loaded holds no test, so it
 * counts as one failure itself, and so does a run that failed without any failed test.
 */
export function summarize(report, exitCode) {
  const files = report?.testResults ?? [];
  const tests = files.flatMap((file) => file.assertionResults ?? []);
  const count = (...states) => tests.filter((one) => states.includes(one.status)).length;
  const brokenFiles = files.filter((file) => file.status === "failed" && !hasFailedTest(file)).length;
  const passed = count("passed");
  const skipped = tests.filter((one) => ["skipped", "pending", "todo", "disabled"].includes(one.status));
  const known = count("failed") + brokenFiles;
  const failed = known === 0 && exitCode !== 0 ? 1 : known;
  return {
    passed,
    failed,
    skipped: skipped.map((one) => one.fullName),
    line: `${passed} passed, ${failed} failed, ${skipped.length} skipped`,
  };
}

/** Files of which something failed. */
export function failedFiles(report) {
  return (report?.testResults ?? []).filter(({ status }) => status === "failed").map(({ name }) => name);
}

/** The first report, with the results of a file that ran once more in place of its first ones. */
export function withRerun(report, rerun) {
  const later = new Map((rerun?.testResults ?? []).map((file) => [file.name, file]));
  return { ...report, testResults: report.testResults.map((file) => later.get(file.name) ?? file) };
}

function hasFailedTest(file) {
  return (file.assertionResults ?? []).some((one) => one.status === "failed");
}
