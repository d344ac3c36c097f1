/** The commit that a release is made from, and what must be true of it. */
import { execFileSync } from "node:child_process";
import { ReleaseError } from "./release-error.ts";

export interface SourceCommit {
  readonly commit: string;
  /** Date of the commit; every date in the release. */
  readonly date: Date;
  /** False where files differ from the commit: then nothing may claim that it was built from it. */
  readonly clean: boolean;
}

/** What may be named as the origin of files: undefined where they differ from the commit. */
export function originOf({ commit, clean }: SourceCommit): string | undefined {
  return clean ? commit : undefined;
}

export function readSource(
  root: string,
  version: string,
  { allowDirty }: { allowDirty: boolean },
): SourceCommit {
  const git = (...args: readonly string[]) => runGit(root, args);
  const commit = git("rev-parse", "HEAD");
  const changes = git("status", "--porcelain");
  if (changes !== "" && !allowDirty)
    throw new ReleaseError(
      `files differ from the commit:\n${firstLines(changes)}`,
      "commit them or remove them; or build from these files with --allow-dirty, without provenance",
    );
  const tags = git("tag", "--points-at", "HEAD").split("\n");
  const versions = tags.filter((tag) => /^v\d+\.\d+\.\d+/.test(tag));
  if (versions.length > 0 && !versions.includes(`v${version}`))
    throw new ReleaseError(
      `the commit has the tag ${versions.join(", ")}, but package.json has the version ${version}`,
      `delete the tag (git tag --delete ${versions[0]}), run npm run release:prepare -- VERSION, commit, and tag that commit`,
    );
  const seconds = Number(git("log", "-1", "--format=%ct"));
  return { commit, date: new Date(seconds * 1000), clean: changes === "" };
}

function runGit(root: string, args: readonly string[]): string {
  try {
    return execFileSync("git", [...args], { cwd: root, encoding: "utf8", stdio: "pipe" }).trimEnd();
  } catch (cause) {
    throw new ReleaseError(
      `git ${args.join(" ")} failed: ${cause instanceof Error ? cause.message : cause}`,
      "run it in a clone of the repository, with git on the PATH",
      { cause },
    );
  }
}

function firstLines(text: string): string {
  const lines = text.split("\n");
  return [...lines.slice(0, 10), ...(lines.length > 10 ? [`… ${lines.length - 10} more`] : [])].join("\n");
}
