/** CHANGELOG.md: the section of a version, and how Unreleased becomes one. Pure. */
import { ReleaseError } from "../project/release-error.ts";

const UNRELEASED = "## Unreleased\n";

/** Without its heading; undefined where there is none. */
export function sectionOf(changelog: string, version: string): string | undefined {
  const sections = changelog.split(/^## /m).slice(1);
  const found = sections.find((section) => section.split(/[ \n]/, 1)[0] === version);
  return found?.slice(found.indexOf("\n")).trim();
}

/** With what was unreleased below a heading of the version, and an empty Unreleased above it. */
export function releaseSection(changelog: string, version: string, date: string): string {
  if (sectionOf(changelog, version) !== undefined)
    throw new ReleaseError(
      `CHANGELOG.md has a section ${version} already`,
      "choose the next version, or move the section back under ## Unreleased",
    );
  if ((sectionOf(changelog, "Unreleased") ?? "") === "")
    throw new ReleaseError(
      "CHANGELOG.md has nothing under ## Unreleased",
      "write there what changes for users; a release without changes is not needed",
    );
  return changelog.replace(UNRELEASED, `${UNRELEASED}\n## ${version} — ${date}\n`);
}
