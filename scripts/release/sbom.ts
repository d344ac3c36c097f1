/** The software bill of materials of a release: CycloneDX from package-lock.json. Pure. */
import { createHash } from "node:crypto";

interface Locked {
  readonly version?: string;
  readonly integrity?: string;
  readonly license?: string;
  readonly dev?: boolean;
  readonly optional?: boolean;
}

export interface SbomInput {
  readonly version: string;
  readonly lock: { readonly packages: Readonly<Record<string, Locked>> };
  /** Node's version by platform. */
  readonly nodes: Readonly<Record<string, string>>;
}

/** The same input gives the same bytes: no date, and a serial number that follows from the content. */
export function renderSbom({ version, lock, nodes }: SbomInput): string {
  const packages = Object.entries(lock.packages)
    .filter(
      ([place, { dev, version: has }]) =>
        place.includes("node_modules/") && dev !== true && has !== undefined,
    )
    .map(([place, locked]) => component(place.slice(place.lastIndexOf("node_modules/") + 13), locked));
  const runtimes = Object.entries(nodes).map(([platform, has]) => ({
    type: "platform",
    name: "node",
    version: has,
    purl: `pkg:generic/node@${has}?platform=${platform}`,
    licenses: [{ license: { id: "MIT" } }],
  }));
  const components = [...unique(packages), ...runtimes];
  const digest = createHash("sha256")
    .update(JSON.stringify([version, components]))
    .digest("hex");
  return `${JSON.stringify(
    {
      bomFormat: "CycloneDX",
      specVersion: "1.5",
      serialNumber: `urn:uuid:${uuidOf(digest)}`,
      version: 1,
      metadata: {
        component: { type: "application", name: "metalbridge", version, "bom-ref": "metalbridge" },
      },
      components,
    },
    undefined,
    2,
  )}\n`;
}

function component(name: string, { version = "", integrity, license }: Locked) {
  const purl = `pkg:npm/${name.replace("@", "%40")}@${version}`;
  const [, base64] = /^sha512-(.+)$/.exec(integrity ?? "") ?? [];
  return {
    type: "library",
    "bom-ref": purl,
    ...{ name, version, purl },
    ...(base64 === undefined
      ? {}
      : { hashes: [{ alg: "SHA-512", content: Buffer.from(base64, "base64").toString("hex") }] }),
    ...(license === undefined ? {} : { licenses: [{ expression: license }] }),
  };
}

function unique<T extends { readonly purl: string }>(components: readonly T[]): readonly T[] {
  const byPurl = new Map(components.map((one) => [one.purl, one]));
  return [...byPurl.values()].sort((one, other) => (one.purl < other.purl ? -1 : 1));
}

/** The form of a random UUID (version 4), of a hash. */
function uuidOf(hex: string): string {
  const parts = [
    hex.slice(0, 8),
    hex.slice(8, 12),
    `4${hex.slice(13, 16)}`,
    `8${hex.slice(17, 20)}`,
    hex.slice(20, 32),
  ];
  return parts.join("-");
}
