/** The servers that `sources` downloads from, all with the same file: a web server, a hub, an S3 server, an OCI registry. */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdir, stat, writeFile } from "node:fs/promises";
import { createServer } from "node:net";
import path from "node:path";
import { createInterface } from "node:readline";
import { setTimeout as pause } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { AwsClient } from "aws4fetch";
import type { ModelRequest } from "../../../agent/store/types.ts";
import { findRegistry } from "../../setup/registry.mjs";
import { findS3Server } from "../../setup/s3-server.mjs";

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

const BUCKET = "models";
const NAME = "bench.gguf";

/** Each server is a process of its own, so that its work is not counted as ours. */
export async function startOrigins(dir: string, sizeBytes: number): Promise<BenchOrigins> {
  const children: ChildProcess[] = [];
  const file = path.join(dir, NAME);
  const web = await startWebServer(children);
  await outputOf("curl", ["-sSf", "-o", file, `${web}/${sizeBytes}/${NAME}`]);
  const [sha256 = ""] = (await outputOf("sha256sum", [file])).split(" ");
  const hub = await startWebServer(children, sha256);
  const all: SourceOrigin[] = [
    { name: "http", request: { source: `${web}/${sizeBytes}/${NAME}` }, url: `${web}/${sizeBytes}/${NAME}` },
    {
      name: "hf",
      request: { source: `hf://o/${sizeBytes}` },
      url: `${hub}/o/${sizeBytes}/resolve/${"0".repeat(40)}/${NAME}`,
    },
    await startS3(children, dir, file),
    await startRegistry(children, dir, file, sha256),
  ];
  return {
    url: hub,
    all,
    [Symbol.asyncDispose]: async () => {
      for (const child of children) {
        if (child.exitCode !== null || child.signalCode !== null) continue;
        child.kill("SIGKILL");
        await once(child, "exit");
      }
    },
  };
}

async function startWebServer(children: ChildProcess[], sha256 = ""): Promise<string> {
  const worker = fileURLToPath(new URL("../workers/file-server.ts", import.meta.url));
  const child = spawn(process.execPath, ["--import", "tsx", worker, sha256], {
    stdio: ["pipe", "pipe", "inherit"],
  });
  children.push(child);
  const [first] = await once(child.stdout, "data");
  return String(first).trim();
}

async function startS3(children: ChildProcess[], dir: string, file: string): Promise<SourceOrigin> {
  const folders = [path.join(dir, "s3-data"), path.join(dir, "s3-meta")] as const;
  for (const folder of folders) await mkdir(folder);
  const host = `127.0.0.1:${await freePort()}`;
  const keys = { accessKeyId: "BENCHKEY", secretAccessKey: "bench-secret" };
  const region = "eu-bench-1";
  const args = [
    ...["--port", host, "--region", region, "--health", "/health", "--quiet"],
    ...["--access", keys.accessKeyId, "--secret", keys.secretAccessKey],
    ...["posix", "--sidecar", folders[1], folders[0]],
  ];
  const child = spawn(found(findS3Server(), "versitygw"), args, { stdio: "ignore" });
  children.push(child);
  while (!(await fetch(`http://${host}/health`).catch(() => undefined))?.ok) {
    if (child.exitCode !== null) throw new Error(`versitygw ended with ${child.exitCode}`);
    await pause(50);
  }
  const client = new AwsClient({ ...keys, service: "s3", region, retries: 0 });
  const signed = async (key: string, method: string) =>
    (await client.sign(`http://${host}/${key}`, { method, aws: { signQuery: true } })).url;
  const object = `${BUCKET}/${NAME}`;
  await outputOf("curl", ["-sSf", "-X", "PUT", await signed(BUCKET, "PUT")]);
  await outputOf("curl", ["-sSf", "-T", file, await signed(object, "PUT")]);
  const credentials = {
    AWS_ACCESS_KEY_ID: keys.accessKeyId,
    AWS_SECRET_ACCESS_KEY: keys.secretAccessKey,
    AWS_ENDPOINT_URL: `http://${host}`,
    AWS_REGION: region,
  };
  return { name: "s3", request: { source: `s3://${object}`, credentials }, url: await signed(object, "GET") };
}

async function startRegistry(
  children: ChildProcess[],
  dir: string,
  file: string,
  sha256: string,
): Promise<SourceOrigin> {
  const data = path.join(dir, "registry");
  const config = path.join(dir, "registry.json");
  const storage = { filesystem: { rootdirectory: data } };
  // JSON is YAML.
  await writeFile(config, JSON.stringify({ version: "0.1", storage, http: { addr: "127.0.0.1:0" } }));
  const child = spawn(found(findRegistry(), "registry"), ["serve", config], {
    stdio: ["ignore", "ignore", "pipe"],
  });
  children.push(child);
  const host = await new Promise<string>((resolve, reject) => {
    const lines = createInterface(child.stderr);
    lines.on("line", (line) => {
      const address = /listening on (127\.0\.0\.1:\d+)/.exec(line)?.[1];
      if (address !== undefined) resolve(address);
    });
    lines.once("close", () => reject(new Error("the registry did not start")));
  });
  const repository = `http://${host}/v2/o/bench`;
  const push = async (content: string, digest: string): Promise<object> => {
    const start = await fetch(`${repository}/blobs/uploads/`, { method: "POST" });
    const upload = new URL(start.headers.get("location") ?? "", repository);
    upload.searchParams.set("digest", digest);
    await outputOf("curl", ["-sSf", "-T", content, upload.href]);
    return { digest, size: (await stat(content)).size };
  };
  const empty = path.join(dir, "empty.json");
  await writeFile(empty, "{}");
  const [emptySha256 = ""] = (await outputOf("sha256sum", [empty])).split(" ");
  const mediaType = "application/vnd.oci.image.manifest.v1+json";
  const annotations = { "org.opencontainers.image.title": NAME };
  const layer = await push(file, `sha256:${sha256}`);
  const emptyConfig = await push(empty, `sha256:${emptySha256}`);
  const manifest = {
    schemaVersion: 2,
    mediaType,
    config: { mediaType: "application/vnd.oci.empty.v1+json", ...emptyConfig },
    layers: [{ mediaType: "application/vnd.oci.image.layer.v1.tar", annotations, ...layer }],
  };
  const headers = { "content-type": mediaType };
  const body = JSON.stringify(manifest);
  const put = await fetch(`${repository}/manifests/v1`, { method: "PUT", headers, body });
  if (!put.ok) throw new Error(`the registry answered ${put.status}: ${await put.text()}`);
  const url = `${repository}/blobs/sha256:${sha256}`;
  return { name: "oci", request: { source: `oci://${host}/o/bench:v1` }, url };
}

function found(program: string | undefined, name: string): string {
  if (program === undefined) throw new Error(`${name} is missing: npm run setup -- --for test`);
  return program;
}

async function freePort(): Promise<number> {
  const probe = createServer().listen(0, "127.0.0.1");
  await once(probe, "listening");
  const address = probe.address();
  probe.close();
  await once(probe, "close");
  return typeof address === "object" && address !== null ? address.port : 0;
}

/** What the program prints. Throws when it fails. */
export async function outputOf(program: string, args: readonly string[]): Promise<string> {
  const child = spawn(program, args, { stdio: ["ignore", "pipe", "inherit"] });
  const chunks: Buffer[] = [];
  child.stdout.on("data", (chunk: Buffer) => chunks.push(chunk));
  const [code] = await once(child, "close");
  if (code !== 0) throw new Error(`${program} ${args.join(" ")} ended with ${code}`);
  return Buffer.concat(chunks).toString("utf8");
}
