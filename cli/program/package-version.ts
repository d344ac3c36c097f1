/** The version of this installation. */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { packageRoot } from "../../local/package-root.ts";

export function readPackageVersion(): string {
  const { version } = JSON.parse(readFileSync(join(packageRoot(), "package.json"), "utf8")) as {
    version: string;
  };
  return version;
}
