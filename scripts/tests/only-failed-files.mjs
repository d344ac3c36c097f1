/** A vitest reporter: a run in which test files failed, and nothing else went wrong, ends with an exit code of its own. */

/** Used by neither vitest nor a signal. */
export const ONLY_FAILED_FILES = 75;

// biome-ignore lint/style/noDefaultExport: vitest loads a reporter by its default export
export default class OnlyFailedFiles {
  #started = 0;
  #onlyFailedFiles = false;

  /** Vitest sets the code to 1 again after this, if a part of it cannot be closed or the teardown of a project fails. */
  onInit(vitest) {
    vitest.onClose(() => {
      if (this.#onlyFailedFiles) process.exitCode = ONLY_FAILED_FILES;
    });
  }

  onTestRunStart(specifications) {
    this.#started = specifications.length;
  }

  /** `errors` occurred outside of tests; a run that was stopped has the reason "interrupted"; a file that did not run, no module. */
  onTestRunEnd(modules, errors, reason) {
    const hasFailedFile = modules.some((module) => !module.ok());
    const allRan = modules.length === this.#started;
    this.#onlyFailedFiles = reason === "failed" && hasFailedFile && allRan && errors.length === 0;
  }
}
