/** Provenance of a release: an in-toto statement with the predicate SLSA provenance v1, unsigned. Pure. */
import type { Project } from "../../project/project.ts";
import { type Locked, productionPackages, type SbomPart, toNpmPackage } from "./sbom.ts";

/** Development packages that decide the bytes of a release. */
const BUILD_PACKAGES = ["esbuild", "node", "tar-stream", "tsx"];

export interface ProvenanceInput {
  readonly project: Project;
  readonly commit: string;
  readonly date: Date;
  readonly platforms: readonly string[];
  readonly baseUrl: string;
  readonly lock: { readonly packages: Readonly<Record<string, Locked>> };
  readonly parts: readonly SbomPart[];
  /** SHA-256 by file. */
  readonly sums: Readonly<Record<string, string>>;
}

/** Omits the machine, the account and the time, so that another build of the commit gives the same bytes. */
export function renderProvenance(input: ProvenanceInput): string {
  const { project, commit, date, platforms, baseUrl, sums } = input;
  const docs = `${project.url}/blob/${commit}/docs/releasing.md`;
  const statement = {
    _type: "https://in-toto.io/Statement/v1",
    subject: Object.entries(sums).map(([name, sha256]) => ({ name, digest: { sha256 } })),
    predicateType: "https://slsa.dev/provenance/v1",
    predicate: {
      buildDefinition: {
        buildType: `${docs}#build-a-release`,
        externalParameters: {
          source: { uri: `git+${project.url}.git`, digest: { gitCommit: commit } },
          version: project.version,
          platforms,
          baseUrl,
        },
        internalParameters: { SOURCE_DATE_EPOCH: date.getTime() / 1000 },
        resolvedDependencies: dependencies(input),
      },
      runDetails: { builder: { id: `${project.url}/blob/${commit}/scripts/release.ts` } },
    },
  };
  return `${JSON.stringify(statement, undefined, 2)}\n`;
}

function dependencies({ project, commit, lock, parts }: ProvenanceInput) {
  const tools = BUILD_PACKAGES.map((name) => toNpmPackage(name, lock.packages[`node_modules/${name}`] ?? {}));
  const packages = [...productionPackages(lock), ...tools].map(({ purl, sha512 }) => ({
    uri: purl,
    digest: { sha512 },
  }));
  return [
    { uri: `git+${project.url}.git`, digest: { gitCommit: commit } },
    // A tool may be a part of the program as well.
    ...new Map(packages.map((one) => [one.uri, one])).values(),
    ...parts.map(({ purl, sha256 }) => ({ uri: purl, digest: { sha256 } })),
  ];
}
