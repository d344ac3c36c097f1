/** The software bill of materials of a release: SPDX 2.3 as JSON. Pure: the same input gives the same bytes. */
import path from "node:path";
import { sha256Hex } from "../../../src/util/hash.ts";

export interface Locked {
  readonly version?: string;
  readonly integrity?: string;
  readonly license?: string;
  readonly dev?: boolean;
}

/** A part that does not come from package-lock.json. */
export interface SbomPart {
  readonly name: string;
  readonly version: string;
  readonly purl: string;
  readonly sha256?: string | undefined;
  /** An expression of SPDX. */
  readonly license?: string | undefined;
}

export interface SbomInput {
  readonly version: string;
  /** The page of the project, and where this file will be. */
  readonly url: string;
  readonly downloads: string;
  readonly date: Date;
  readonly lock: { readonly packages: Readonly<Record<string, Locked>> };
  /** Node of each platform, and the Debian packages of the image. */
  readonly parts: readonly SbomPart[];
}

export function renderSbom({ version, url, downloads, date, lock, parts }: SbomInput): string {
  const packages = [...productionPackages(lock).map(npmPackage), ...parts.map(otherPackage)].sort(byId);
  const root = {
    name: "metalbridge",
    SPDXID: "SPDXRef-metalbridge",
    versionInfo: version,
    ...SAME_FOR_ALL,
    downloadLocation: `git+${url}.git@v${version}`,
    licenseDeclared: "Apache-2.0",
    primaryPackagePurpose: "APPLICATION",
  };
  const relationships = [
    relationship("SPDXRef-DOCUMENT", "DESCRIBES", root.SPDXID),
    ...packages.map(({ SPDXID }) => relationship(root.SPDXID, "CONTAINS", SPDXID)),
  ];
  const digest = sha256Hex(JSON.stringify(packages));
  const document = {
    spdxVersion: "SPDX-2.3",
    dataLicense: "CC0-1.0",
    SPDXID: "SPDXRef-DOCUMENT",
    name: `metalbridge-${version}`,
    // Must be unique to the content.
    documentNamespace: `${downloads}/metalbridge-${version}.spdx.json/${digest}`,
    creationInfo: {
      created: date.toISOString().replace(/\.\d+Z$/, "Z"),
      creators: ["Organization: Metalbridge", `Tool: metalbridge-release-${version}`],
    },
    packages: [root, ...packages],
    relationships,
  };
  return `${JSON.stringify(document, undefined, 2)}\n`;
}

/** What a package says of itself is all that is known of its license. */
const SAME_FOR_ALL = {
  downloadLocation: "NOASSERTION",
  filesAnalyzed: false,
  licenseConcluded: "NOASSERTION",
  licenseDeclared: "NOASSERTION",
  copyrightText: "NOASSERTION",
};

export interface NpmPackage {
  readonly name: string;
  readonly version: string;
  readonly purl: string;
  /** In hexadecimal; undefined where the lock file has none. */
  readonly sha512: string | undefined;
  readonly license: string | undefined;
}

/** Everything in package-lock.json that is not for development only, each once. */
export function productionPackages(lock: SbomInput["lock"]): readonly NpmPackage[] {
  const found = Object.entries(lock.packages)
    .filter(([place, { dev, version }]) => place !== "" && dev !== true && version !== undefined)
    .map(([place, locked]) => toNpmPackage(place.slice(place.lastIndexOf("node_modules/") + 13), locked));
  return [...new Map(found.map((one) => [one.purl, one])).values()];
}

export function toNpmPackage(name: string, { version = "", integrity, license }: Locked): NpmPackage {
  const [, base64] = /^sha512-(.+)$/.exec(integrity ?? "") ?? [];
  const sha512 = base64 === undefined ? undefined : Buffer.from(base64, "base64").toString("hex");
  return { name, version, purl: `pkg:npm/${name.replace("@", "%40")}@${version}`, sha512, license };
}

/** Debian names the file of a package NAME_VERSION_ARCHITECTURE.deb, without the epoch of the version. */
export function debianPart({
  path: file,
  sha256,
}: {
  readonly path: string;
  readonly sha256: string;
}): SbomPart {
  const [name = "", encoded = "", architecture = ""] = path.posix.basename(file, ".deb").split("_");
  const version = decodeURIComponent(encoded);
  const purl = `pkg:deb/debian/${name}@${encodeURIComponent(version)}?arch=${architecture}`;
  return { name, version, purl, sha256 };
}

function npmPackage({ name, version, purl, sha512, license }: NpmPackage) {
  const checksums = sha512 === undefined ? undefined : [{ algorithm: "SHA512", checksumValue: sha512 }];
  return entry({ name, version, purl, license }, checksums);
}

function otherPackage(part: SbomPart) {
  const { sha256 } = part;
  return entry(part, sha256 === undefined ? undefined : [{ algorithm: "SHA256", checksumValue: sha256 }]);
}

function entry(
  { name, version, purl, license }: Omit<SbomPart, "sha256">,
  checksums: readonly object[] | undefined,
) {
  return {
    name,
    SPDXID: `SPDXRef-${purl.replace(/^pkg:/, "").replaceAll(/[^A-Za-z0-9.]+/g, "-")}`,
    versionInfo: version,
    ...SAME_FOR_ALL,
    licenseDeclared: license ?? SAME_FOR_ALL.licenseDeclared,
    checksums,
    externalRefs: [{ referenceCategory: "PACKAGE-MANAGER", referenceType: "purl", referenceLocator: purl }],
  };
}

function relationship(from: string, relationshipType: string, to: string) {
  return { spdxElementId: from, relationshipType, relatedSpdxElement: to };
}

function byId(one: { readonly SPDXID: string }, other: { readonly SPDXID: string }): number {
  return one.SPDXID < other.SPDXID ? -1 : 1;
}
