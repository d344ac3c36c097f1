/** Models and programs that are not ours, in folders as their programs leave them, and where Ollama answers. */
import { mkdirSync, symlinkSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { dirname, join } from "node:path";
import { expect, test } from "vitest";
import { boundedReport, MAX_REPORTED_MODELS } from "../../src/api/node-report.ts";
import { temporaryFolder } from "../../test/fixtures/temporary-folder.ts";
import { agentConfigSchema } from "../config/schema.ts";
import { readInstalled } from "./installed.ts";
import { installedElsewhere } from "./outside-store.ts";

const NOWHERE = { homes: [], folders: [] };
const MANIFESTS = ".ollama/models/manifests";
const HUB = ".cache/huggingface/hub";

function lay(root: string, files: Readonly<Record<string, string>>): void {
  for (const [path, text] of Object.entries(files)) {
    mkdirSync(dirname(join(root, path)), { recursive: true });
    writeFileSync(join(root, path), text);
  }
}

test("each program's folder is read as it lays it out, parts together, and nothing else is a model", async () => {
  await using folder = await temporaryFolder();
  const layers = JSON.stringify({ layers: [{ size: 400 }, { size: 15 }], config: { size: 5 } });
  lay(folder.path, {
    [`${MANIFESTS}/registry.ollama.ai/library/llama3.2/1b`]: layers,
    [`${MANIFESTS}/hf.co/me/mine/Q4_K_M`]: "{",
    ".omlx/models/Qwen3-4B-4bit/model.safetensors": "12345",
    ".omlx/models/Qwen3-4B-4bit/config.json": "{}",
    ".cache/llama.cpp/tiny.gguf": "123",
    ".cache/llama.cpp/mmproj-tiny.gguf": "123",
    ".cache/llama.cpp/manifest.json": "{}",
    ".lmstudio/models/me/big-GGUF/big-00001-of-00002.gguf": "12",
    ".lmstudio/models/me/big-GGUF/big-00002-of-00002.gguf": "123",
    [`${HUB}/models--me--partial/blobs/abc.incomplete`]: "1",
    [`${HUB}/models--me--mlx/blobs/abc`]: "1234567",
    [`${HUB}/datasets--me--data/snapshots/1/a.safetensors`]: "1",
  });
  const snapshot = join(folder.path, HUB, "models--me--mlx/snapshots/1");
  mkdirSync(snapshot, { recursive: true });
  symlinkSync("../../blobs/abc", join(snapshot, "model.safetensors"));
  expect(await readInstalled({ ...NOWHERE, homes: [folder.path, join(folder.path, "absent")] })).toEqual({
    runtimes: ["llamacpp", "lmstudio", "ollama", "omlx"].map((name) => ({ name })),
    models: [
      { name: "Qwen3-4B-4bit", runtime: "omlx", sizeBytes: 5 },
      { name: "hf://me/mlx", runtime: "huggingface", sizeBytes: 7 },
      { name: "me/big-GGUF/big-00001-of-00002.gguf", runtime: "lmstudio", sizeBytes: 5 },
      { name: "ollama://hf.co/me/mine:Q4_K_M", runtime: "ollama" },
      { name: "ollama://llama3.2:1b", runtime: "ollama", sizeBytes: 420 },
      { name: "tiny.gguf", runtime: "llamacpp", sizeBytes: 3 },
    ],
  });
  const named = await readInstalled({
    ...NOWHERE,
    folders: [join(folder.path, HUB), join(folder.path, ".ollama/models"), join(folder.path, "absent")],
  });
  expect(named.models.map(({ runtime }) => runtime)).toEqual(["huggingface", "ollama", "ollama"]);
});

test("models have names, and not the folders into which people have sorted them", async () => {
  await using folder = await temporaryFolder();
  lay(folder.path, {
    "models/customers/acme/secret.gguf": "1",
    "models/customers/acme/mlx/model.safetensors": "1",
    "weights/model.safetensors": "1",
  });
  const folders = ["models", "weights"].map((name) => join(folder.path, name));
  const { models, runtimes } = await readInstalled({ ...NOWHERE, folders });
  expect(models.map(({ name }) => name)).toEqual(["mlx", "secret.gguf", "weights"]);
  // Anyone may have put them there.
  expect(runtimes).toEqual([]);
});

test("a report with more models than can be published says how many were left out", async () => {
  await using folder = await temporaryFolder();
  const names = Array.from({ length: MAX_REPORTED_MODELS + 50 }, (_, at) => `.cache/llama.cpp/${at}.gguf`);
  lay(folder.path, Object.fromEntries(names.map((name) => [name, ""])));
  const { models } = await readInstalled({ ...NOWHERE, homes: [folder.path] });
  const nothing = { cpu: {}, gpus: [], runtimes: [], leftOut: [] };
  const report = boundedReport({ ...nothing, models: [...models] });
  expect(report.models).toHaveLength(MAX_REPORTED_MODELS);
  expect(report.leftOut).toEqual(["50 more installed models"]);
});

test("a folder of any number of files is read as far as its limit", async () => {
  await using folder = await temporaryFolder();
  const models = join(folder.path, ".cache/llama.cpp");
  mkdirSync(models, { recursive: true });
  for (let at = 0; at < 10_100; at += 1) writeFileSync(join(models, `${at}.gguf`), "");
  const found = await readInstalled({ ...NOWHERE, homes: [folder.path] });
  expect(found.models).toHaveLength(10_000);
});

test("Ollama is asked where it answers; one that answers nonsense is read by its folder", async () => {
  await using folder = await temporaryFolder();
  lay(folder.path, { [`${MANIFESTS}/registry.ollama.ai/library/a/b`]: "{}" });
  const answers: Record<string, string> = {
    "/api/version": '{"version":"0.12.1"}',
    "/api/tags": '{"models":[{"name":"qwen3:8b","size":5}]}',
  };
  const server = createServer((request, response) => response.end(answers[request.url ?? ""] ?? ""));
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as AddressInfo;
  const places = { ...NOWHERE, homes: [folder.path], ollama: { host: "127.0.0.1", port } };
  try {
    expect(await readInstalled(places)).toEqual({
      runtimes: [{ name: "ollama", version: "0.12.1" }],
      models: [{ name: "ollama://qwen3:8b", runtime: "ollama", sizeBytes: 5 }],
    });
    answers["/api/version"] = '{"version":"0.0.0"}';
    expect((await readInstalled(places)).runtimes).toEqual([
      { name: "ollama", version: "development build" },
    ]);
    for (const path of ["/api/tags", "/api/version"]) {
      answers[path] = "<html>";
      expect((await readInstalled(places)).models).toEqual([{ name: "ollama://a:b", runtime: "ollama" }]);
    }
  } finally {
    await new Promise((resolve) => server.close(resolve));
  }
});

test("a host lists what other programs have, and not what its agent made in a shared server", async () => {
  await using folder = await temporaryFolder();
  const manifests = "models/manifests/registry.ollama.ai/library";
  lay(folder.path, { [`${manifests}/metalbridge-abc/latest`]: "{}", [`${manifests}/qwen3/8b`]: "{}" });
  const modelRoots = [join(folder.path, "models")];
  const ollama = agentConfigSchema.shape.ollama.parse({ address: "127.0.0.1:1" });
  const found = await installedElsewhere({ modelRoots, ollama, reportInstalled: true });
  expect(found).toContainEqual({ source: "ollama://qwen3:8b", runtime: "ollama" });
  expect(found.filter(({ source }) => source.includes("metalbridge-abc"))).toEqual([]);
  expect(await installedElsewhere({ modelRoots, ollama, reportInstalled: false })).toEqual([]);
});

test("running programs are known by the names of processes", async () => {
  await using folder = await temporaryFolder();
  lay(folder.path, {
    "1/comm": "systemd\n",
    "20/comm": "ollama\n",
    "21/comm": "VLLM::EngineCor\n",
    "x/comm": "ollama",
  });
  const { runtimes } = await readInstalled({ ...NOWHERE, proc: folder.path });
  expect(runtimes).toEqual([{ name: "ollama" }, { name: "vllm" }]);
});
