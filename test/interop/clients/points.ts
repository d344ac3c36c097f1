/** Tries the official clients of OpenAI and Anthropic for Python and Node, and curl, through the gateway of `npm start` and at its engines: the same results, but for the documented differences. */
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { once } from "node:events";
import { writeFileSync } from "node:fs";
import path from "node:path";
import { isDeepStrictEqual, promisify } from "node:util";
import { gzipSync } from "node:zlib";
import type { InteropCheck } from "../../../controller/pods/workload/fixtures/interop-facts.ts";
import { findOnPath } from "../../../scripts/setup/command.mjs";
import { API_VERSION } from "../../../src/api/group.ts";
import { type Objects, objectsOf } from "../../bed/objects.ts";
import { until } from "../../bed/until.ts";
import { temporaryFolder } from "../../fixtures/temporary-folder.ts";
import { writeTinyGguf } from "../../fixtures/tiny-gguf.ts";
import { SERVICE, startFarm } from "../farm.ts";
import { differenceOf } from "../open-webui/points.ts";
import { POINTS, type Target, tryNodeClients } from "./clients.ts";

/** The clients for Python. */
export const PYTHON_CLIENTS = {
  name: "clients",
  version: "openai-3.57.0-anthropic-2.14.0",
  requirements: path.join(import.meta.dirname, "requirements.txt"),
  size: "20 MB",
  finish: [],
};
const run = promisify(execFile);

/** What the gateway gives where an engine gives something else, and why. */
const DIFFERENCES: Readonly<Record<string, { readonly gateway: unknown; readonly because: string }>> = {
  "retrieves a model": { gateway: SERVICE, because: "llama-server has no such path" },
  "reports an unknown model, without a retry": {
    gateway: [
      ["NotFoundError", 404, 1],
      ["NotFoundError", 404, 1],
    ],
    because: "an engine has one model, and answers to any name",
  },
  "reports a wrong key, without a retry": {
    gateway: [
      ["AuthenticationError", 401, 1],
      ["AuthenticationError", 401, 1],
    ],
    because: "the engines of npm start have no key",
  },
  "retries a request over a limit until it is answered": {
    gateway: [8, true],
    because: "limits belong to keys of the gateway",
  },
};

/** One result per client and point. `python`: the folder of its programs; undefined if it cannot be had here. */
export async function tryClients(
  python: string | undefined,
  note: (text: string) => void,
): Promise<readonly InteropCheck[]> {
  await using folder = await temporaryFolder();
  note("npm start");
  await using farm = await startFarm(folder.path, "a secret that no client has");
  using objects = objectsOf(farm.kubeconfig);
  const engines = await startEngines(objects, farm.modelsDir, note);
  const createKey = (...args: string[]) => farm.run("key", "create", ...args, "--yes", "--all");
  const [key, oneKey] = [await createKey("many"), await createKey("one", "--concurrent-requests", "1")];
  const gateway = { chat: farm.url, embedding: farm.url, rerank: farm.url, model: SERVICE, key, oneKey };
  const direct = { ...engines, model: SERVICE, key };
  const results: InteropCheck[] = [];
  const clients = {
    Node: tryNodeClients,
    ...(python === undefined ? {} : { Python: (target: Target) => tryPython(python, target) }),
  };
  for (const [language, tryAll] of Object.entries(clients)) {
    note(`the clients for ${language}`);
    const throughGateway = await tryAll(gateway);
    assert.deepEqual(Object.keys(throughGateway), Object.keys(POINTS));
    results.push(...compared(language, throughGateway, await tryAll(direct)));
  }
  for (const [program, words, work] of PROGRAMS) {
    const point = `${program} ${words}`;
    note(findOnPath(program) === undefined ? `${point}: not had` : point);
    if (findOnPath(program) === undefined) continue;
    const body = path.join(folder.path, "body");
    results.push({ point, differs: await differenceOf(() => work({ url: farm.url, key, body })) });
  }
  return results;
}

/** Each point with what differs from the engine, or from what is documented. */
function compared(
  language: string,
  gateway: Readonly<Record<string, unknown>>,
  engine: Readonly<Record<string, unknown>>,
): readonly InteropCheck[] {
  return Object.entries(gateway).map(([name, result]) => {
    const known = DIFFERENCES[name];
    const expected = known === undefined ? engine[name] : known.gateway;
    const isFailure = typeof result === "string" && /^\w+: /.test(result);
    const isSame = !isFailure && isDeepStrictEqual(result, expected);
    const isOutdated = known !== undefined && isDeepStrictEqual(engine[name], expected);
    const differs = isOutdated
      ? "the engine gives the same: remove the documented difference"
      : isSame
        ? undefined
        : `${JSON.stringify(result)} instead of ${JSON.stringify(expected)}`;
    return { point: `${language} ${name}${known === undefined ? "" : ` (${known.because})`}`, differs };
  });
}

async function tryPython(bin: string, target: Target): Promise<Record<string, unknown>> {
  const script = path.join(import.meta.dirname, "clients.py");
  const child = execFile(path.join(bin, "python"), [script]);
  let [out, err] = ["", ""];
  child.stdout?.on("data", (text: string) => (out += text));
  child.stderr?.on("data", (text: string) => (err += text));
  child.stdin?.end(JSON.stringify(target));
  const [code] = await once(child, "close");
  if (code !== 0) throw new Error(err.slice(-2_000));
  return JSON.parse(out);
}

interface Sent {
  readonly url: string;
  readonly key: string;
  /** A file for a body. */
  readonly body: string;
}

const CHAT = JSON.stringify({ model: SERVICE, messages: [{ role: "user", content: "Hi" }], max_tokens: 4 });

/** Other programs that send what no official client does. */
const PROGRAMS: readonly (readonly [program: string, point: string, (sent: Sent) => Promise<void>])[] = [
  [
    "curl",
    "--http1.0 is answered",
    async (sent) => {
      const [status, body] = await curl(sent, ["--http1.0", "--data", CHAT]);
      assert.deepEqual([status, JSON.parse(body).usage.completion_tokens], [200, 4]);
    },
  ],
  [
    "curl",
    "with a gzip'd body gets 415 that names Content-Encoding",
    async (sent) => {
      writeFileSync(sent.body, gzipSync(CHAT));
      const gzip = ["-H", "content-encoding: gzip", "--data-binary", `@${sent.body}`];
      for (const where of ["", `/s/default/${SERVICE}`]) {
        const [status, body] = await curl(sent, gzip, where);
        assert.deepEqual([status, JSON.parse(body).error.code], [415, "unsupported_encoding"]);
        assert.match(body, /Content-Encoding/i);
      }
    },
  ],
  [
    "curl",
    "--compressed is answered",
    async (sent) => {
      const [status, body] = await curl(sent, ["--compressed", "--data", CHAT]);
      assert.deepEqual([status, JSON.parse(body).usage.completion_tokens], [200, 4]);
    },
  ],
  [
    "ab",
    "speaks HTTP/1.0, and has no failed request",
    async ({ url, key, body }) => {
      writeFileSync(body, CHAT);
      const headers = ["-H", `Authorization: Bearer ${key}`, "-T", "application/json"];
      // Answers differ in length.
      const { stdout } = await run("ab", [
        "-n",
        "10",
        "-c",
        "2",
        "-l",
        "-p",
        body,
        ...headers,
        `${url}${PATH}`,
      ]);
      assert.match(stdout, /Complete requests: +10\n[\s\S]*Failed requests: +0\n/);
      assert.doesNotMatch(stdout, /Non-2xx/);
    },
  ],
];

const PATH = "/v1/chat/completions";

/** The status, and the body. */
async function curl({ url, key }: Sent, args: readonly string[], where = ""): Promise<[number, string]> {
  const headers = ["-H", `Authorization: Bearer ${key}`, "-H", "content-type: application/json"];
  const print = ["-sS", "-w", "\n%{http_code}"];
  const { stdout } = await run("curl", [...print, ...headers, ...args, `${url}${where}${PATH}`]);
  const at = stdout.lastIndexOf("\n");
  return [Number(stdout.slice(at + 1)), stdout.slice(0, at)];
}

/** URLs of the engines, by what they serve. */
async function startEngines(objects: Objects, modelsDir: string, note: (text: string) => void) {
  const rank = { "llama.pooling_type": { type: "u32", value: 4 } } as const;
  await writeTinyGguf(path.join(modelsDir, "embed.gguf"), { embedding: true });
  await writeTinyGguf(path.join(modelsDir, "rank.gguf"), { metadata: rank });
  const served = { embed: "embedding", rank: "rerank" };
  note("services for embeddings and reranking");
  for (const [name, mode] of Object.entries(served)) {
    const metadata = { name, namespace: "default" };
    const source = `file://${path.join(modelsDir, name)}.gguf`;
    const spec = { modelRef: name, mode, contextSize: 512, parallelSlots: 1 };
    await objects.apply(
      {
        apiVersion: API_VERSION,
        kind: "Model",
        metadata,
        spec: { source, hardware: { accelerator: "metal" } },
      },
      { apiVersion: API_VERSION, kind: "InferenceService", metadata, spec },
    );
  }
  const engineOf = (name: string) =>
    until(
      async () => {
        const { items } = await objects.get("default", "endpointslices.discovery.k8s.io");
        const slice = items.find(
          ({ metadata, endpoints }: { metadata: { labels: Record<string, string> }; endpoints: unknown[] }) =>
            metadata.labels["kubernetes.io/service-name"] === name && endpoints?.length > 0,
        );
        assert.equal(slice?.endpoints[0].conditions.ready, true, `${name} is not ready`);
        return `http://${slice.endpoints[0].addresses[0]}:${slice.ports[0].port}`;
      },
      { timeoutMs: 120_000 },
    );
  return {
    chat: await engineOf(SERVICE),
    embedding: await engineOf("embed"),
    rerank: await engineOf("rank"),
  };
}
