/** Reads model artifacts of an OCI registry: each layer is one file, and its digest is the checksum of the file. */
import { type OciSource, registryAt } from "../../models/source/kinds/oci.ts";
import { isBelowUrl } from "../failure.ts";
import type { Access, SourceReader } from "../remote-source.ts";
import { filesOfArtifact } from "./manifest.ts";
import { blobUrl, listArtifact, repositoryAuthority } from "./registry.ts";

export function openOci(
  { registry, repository, reference }: OciSource,
  { rules, credentials, revision }: Access,
): SourceReader {
  const base = registryAt(registry);
  const separator = reference.includes(":") ? "@" : ":";
  const shown = `oci://${registry}/${repository}${separator}${reference}`;
  const authority = repositoryAuthority({ base, name: repository, rules }, credentials);
  const artifact = { base, name: repository, shown, rules, authority };
  return {
    shown,
    rules,
    ...authority,
    hasCredentials: credentials !== undefined,
    holds: isBelowUrl(`${base}/v2/${repository}/`),
    list: (signal) => listArtifact(artifact, revision ?? reference, filesOfArtifact, signal),
    locate: (name, list) => blobUrl(artifact, name, list),
  };
}
