/** A vitest reporter: notes that errors occurred outside of any test. They fail the run, and no file can be run again for them. */
import { writeFileSync } from "node:fs";

// biome-ignore lint/style/noDefaultExport: vitest loads a reporter by its default export
export default class UnhandledErrors {
  onTestRunEnd(_modules, errors) {
    const file = process.env.METALBRIDGE_UNHANDLED_ERRORS;
    if (file !== undefined && errors.length > 0) writeFileSync(file, `${errors.length}\n`);
  }
}
