/** `npx tsx scripts/images/push.ts FOLDER HOST/REPOSITORY:TAG`: an OCI image layout, whatever it holds, to a registry. */
import { openAsBlob, readFileSync } from "node:fs";
import path from "node:path";
import { fileURLToPath } from "node:url";
import { ReleaseError, runCommand } from "../project/release-error.ts";
import { type ImageDescriptor, INDEX_TYPE } from "./layout.ts";
import {
  credentialsFor,
  parseReference,
  type RegistryCredentials,
  repositoryClient,
  type Send,
} from "./registry.ts";

/** Blobs that the registry has are not sent again; the tag is set last. Returns the digest that it has now. */
export async function pushLayout(
  folder: string,
  reference: string,
  credentialsOf: (host: string) => RegistryCredentials = credentialsFor,
): Promise<string> {
  const target = parseReference(reference);
  const send = repositoryClient(target, credentialsOf(target.host));
  const { manifests } = JSON.parse(readFileSync(path.join(folder, "index.json"), "utf8")) as {
    readonly manifests: readonly ImageDescriptor[];
  };
  const [top] = manifests;
  if (top === undefined || manifests.some(({ digest }) => digest !== top.digest))
    throw new ReleaseError(`${folder} holds ${manifests.length} images`, "name a layout with one");
  await pushManifest(send, folder, top, target.tag);
  return top.digest;
}

/** What a manifest names comes before it. */
async function pushManifest(
  send: Send,
  folder: string,
  { mediaType, digest }: ImageDescriptor,
  name: string,
): Promise<void> {
  const body = readFileSync(blobFile(folder, digest));
  const content = JSON.parse(body.toString("utf8"));
  if (mediaType === INDEX_TYPE) {
    for (const child of content.manifests) await pushManifest(send, folder, child, child.digest);
  } else {
    for (const blob of [content.config, ...content.layers]) await pushBlob(send, folder, blob);
  }
  const headers = { "content-type": mediaType };
  const response = await send(`manifests/${name}`, { method: "PUT", headers, body });
  const stored = response.headers.get("docker-content-digest");
  if (stored !== null && stored !== digest)
    throw new ReleaseError(
      `the registry stored ${stored} in place of ${digest}`,
      "push to the registry itself, and not to one that converts images",
    );
}

async function pushBlob(send: Send, folder: string, { digest }: ImageDescriptor): Promise<void> {
  const known = await send(`blobs/${digest}`, { method: "HEAD" }, [200, 404]);
  if (known.status === 200) return;
  const started = await send("blobs/uploads/", { method: "POST" });
  const upload = new URL(started.headers.get("location") ?? "", started.url);
  upload.searchParams.set("digest", digest);
  // With a length: not every registry takes chunks.
  const body = await openAsBlob(blobFile(folder, digest));
  await send(upload, { method: "PUT", headers: { "content-type": "application/octet-stream" }, body });
}

function blobFile(folder: string, digest: string): string {
  return path.join(folder, "blobs", digest.replace(":", path.sep));
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  await runCommand(async () => {
    const [folder, reference] = process.argv.slice(2);
    if (folder === undefined || reference === undefined)
      throw new ReleaseError("name a layout and where it goes", "push.ts FOLDER HOST/REPOSITORY:TAG");
    console.log(`${reference}@${await pushLayout(folder, reference)}`);
  });
}
