/** The Debian packages of the image, as parts of the bill of materials. */
import path from "node:path";
import { ARCHITECTURES, readLock } from "../../images/debian-lock.ts";
import type { Part } from "./sbom.ts";

export function debianParts(): readonly Part[] {
  const { packages } = readLock();
  const all = ARCHITECTURES.flatMap((architecture) => packages[architecture]);
  const parts = all.map(({ path: file, sha256 }) => ({ ...partOf(file), sha256 }));
  // Packages for every architecture are in both lists.
  return [...new Map(parts.map((part) => [part.purl, part])).values()];
}

/** Debian writes NAME_VERSION_ARCHITECTURE.deb, without the epoch of the version. */
function partOf(file: string): Part {
  const [name = "", encoded = "", architecture = ""] = path.basename(file, ".deb").split("_");
  const version = decodeURIComponent(encoded);
  const purl = `pkg:deb/debian/${name}@${encodeURIComponent(version)}?arch=${architecture}`;
  return { name, version, purl };
}
