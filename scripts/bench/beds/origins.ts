/** The servers that `sources` downloads from, all with the same file: a web server, a hub, an S3 server, an OCI registry. */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdir, stat, writeFile } from "node:fs/promises";
import path from "node:path";
import { fileURLToPath } from "node:url";
import type { ModelRequest } from "../../../agent/store/types.ts";
import { runRegistry } from "../../../test/bed/oci-registry.ts";
import { run, UNHURRIED } from "../../../test/bed/run.ts";
import { type S3Server, startS3Server } from "../../../test/bed/s3-server.ts";

export interface SourceOrigin {
  readonly name: "http" | "hf" | "s3" | "oci";
  readonly request: ModelRequest;
  /** What curl reads the same bytes from. */
  readonly url: string;
}

export interface BenchOrigins extends AsyncDisposable {
  /** The web server, which is the hub too; `/SIZE/NAME.gguf` is a file of SIZE bytes. */
  readonly url: string;
  readonly all: readonly SourceOrigin[];
}

const NAME = "bench.gguf";

/** Each server is a separate process, so that its work is not counted as ours. */
export async function startOrigins(dir: string, sizeBytes: number): Promise<BenchOrigins> {
  await using stack = new AsyncDisposableStack();
  const file = path.join(dir, NAME);
  const web = await startWebServer(stack);
  const url = `${web}/${sizeBytes}/${NAME}`;
  await run("curl", ["-sSf", "-o", file, url], UNHURRIED);
  const sha256 = await sha256Of(file);
  const hub = await startWebServer(stack, sha256);
  const resolved = `${hub}/o/${sizeBytes}/resolve/${"0".repeat(40)}/${NAME}`;
  const all: SourceOrigin[] = [
    { name: "http", request: { source: url }, url },
    { name: "hf", request: { source: `hf://o/${sizeBytes}` }, url: resolved },
    await uploadToS3(stack.use(await startS3Server()), file),
    await startRegistry(stack, dir, file, sha256),
  ];
  const kept = stack.move();
  return { url: hub, all, [Symbol.asyncDispose]: () => kept.disposeAsync() };
}

async function startWebServer(stack: AsyncDisposableStack, sha256 = ""): Promise<string> {
  const worker = fileURLToPath(new URL("../workers/file-server.ts", import.meta.url));
  const child = spawn(process.execPath, ["--import", "tsx", worker, sha256], {
    stdio: ["pipe", "pipe", "inherit"],
  });
  const exited = once(child, "exit");
  stack.defer(async () => {
    child.stdin.end();
    await exited;
  });
  const [first] = await once(child.stdout, "data");
  return String(first).trim();
}

async function uploadToS3({ sign, credentials }: S3Server, file: string): Promise<SourceOrigin> {
  const object = `models/${NAME}`;
  await run("curl", ["-sSf", "-T", file, await sign(object, "PUT")], UNHURRIED);
  return { name: "s3", request: { source: `s3://${object}`, credentials }, url: await sign(object, "GET") };
}

async function startRegistry(
  stack: AsyncDisposableStack,
  dir: string,
  file: string,
  sha256: string,
): Promise<SourceOrigin> {
  const folder = path.join(dir, "registry");
  await mkdir(folder);
  const { host, stop } = await runRegistry(folder);
  stack.defer(stop);
  const repository = `http://${host}/v2/o/bench`;
  const push = async (content: string, sum: string): Promise<object> => {
    const digest = `sha256:${sum}`;
    const start = await fetch(`${repository}/blobs/uploads/`, { method: "POST" });
    const upload = new URL(start.headers.get("location") ?? "", repository);
    upload.searchParams.set("digest", digest);
    await run("curl", ["-sSf", "-T", content, upload.href], UNHURRIED);
    return { digest, size: (await stat(content)).size };
  };
  const empty = path.join(dir, "empty.json");
  await writeFile(empty, "{}");
  const mediaType = "application/vnd.oci.image.manifest.v1+json";
  const annotations = { "org.opencontainers.image.title": NAME };
  const layer = { mediaType: "application/vnd.oci.image.layer.v1.tar", annotations };
  const manifest = {
    schemaVersion: 2,
    mediaType,
    config: { mediaType: "application/vnd.oci.empty.v1+json", ...(await push(empty, await sha256Of(empty))) },
    layers: [{ ...layer, ...(await push(file, sha256)) }],
  };
  const headers = { "content-type": mediaType };
  const body = JSON.stringify(manifest);
  const put = await fetch(`${repository}/manifests/v1`, { method: "PUT", headers, body });
  if (!put.ok) throw new Error(`the registry answered ${put.status}: ${await put.text()}`);
  const url = `${repository}/blobs/sha256:${sha256}`;
  return { name: "oci", request: { source: `oci://${host}/o/bench:v1` }, url };
}

async function sha256Of(file: string): Promise<string> {
  return (await run("sha256sum", [file], UNHURRIED)).slice(0, 64);
}
