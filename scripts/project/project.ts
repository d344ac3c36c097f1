/** Name, version and place of the project: package.json is the only file that says them. */
import { readFileSync } from "node:fs";
import { z } from "zod";
import { ReleaseError } from "./release-error.ts";

const packageSchema = z.object({ version: z.string(), repository: z.object({ url: z.string() }) });

/** The pattern of semver.org, without build metadata: a tag of an image may have no plus sign. */
const SEMVER = /^(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)(-[0-9A-Za-z-]+(\.[0-9A-Za-z-]+)*)?$/;

export interface Project {
  readonly version: string;
  /** Such as `metalbridge/metalbridge`. */
  readonly slug: string;
  readonly owner: string;
  /** Its page, without a slash at the end. */
  readonly url: string;
  /** Where the files of this version will be. */
  readonly downloads: string;
  /** Repositories of a registry, without a tag. */
  readonly image: string;
  readonly chart: string;
}

export function readProject(root: string): Project {
  const parsed = packageSchema.parse(JSON.parse(readFileSync(`${root}/package.json`, "utf8")));
  return projectOf(parsed.version, parsed.repository.url);
}

export function projectOf(version: string, repositoryUrl: string): Project {
  checkVersion(version, "package.json");
  const [, slug = "", owner = ""] =
    /^git\+https:\/\/github\.com\/(([\w.-]+)\/[\w.-]+?)\.git$/.exec(repositoryUrl) ?? [];
  if (slug === "")
    throw new ReleaseError(
      `repository.url of package.json is ${repositoryUrl}`,
      "write git+https://github.com/OWNER/REPOSITORY.git",
    );
  const url = `https://github.com/${slug}`;
  const registry = `ghcr.io/${owner.toLowerCase()}`;
  return {
    version,
    slug,
    owner,
    url,
    downloads: `${url}/releases/download/v${version}`,
    image: `${registry}/metalbridge`,
    chart: `${registry}/charts/metalbridge`,
  };
}

export function checkVersion(version: string, where: string): void {
  if (!SEMVER.test(version))
    throw new ReleaseError(
      `the version ${JSON.stringify(version)} of ${where} is not a semantic version`,
      "write MAJOR.MINOR.PATCH, for a pre-release MAJOR.MINOR.PATCH-rc.1, without a v in front",
    );
}
