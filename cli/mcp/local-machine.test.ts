/** This machine, and recorded Macs, as `metalbridge mcp` knows the machine that it runs on. */
import { chmod, mkdir, writeFile } from "node:fs/promises";
import { cpus, hostname, totalmem } from "node:os";
import { delimiter, join } from "node:path";
import { expect, test } from "vitest";
import { M4_MAX, startReplay } from "../../test/bed/replay.ts";
import { temporaryFolder } from "../../test/fixtures/temporary-folder.ts";
import { readLocalMachine } from "./local-machine.ts";

const GIB = 1024 ** 3;

test("a Mac has its chip, what its GPU may use, its engines and the models in its home folder", async () => {
  await using mac = await startReplay(M4_MAX);
  await using folder = await temporaryFolder();
  const models = join(folder.path, "Library/Caches/llama.cpp");
  await mkdir(models, { recursive: true });
  await writeFile(join(models, "tiny.gguf"), "123");
  const server = join(folder.path, "llama-server");
  await writeFile(server, "");
  await chmod(server, 0o755);
  const toolPath = [folder.path, mac.path].join(delimiter);
  const place = await readLocalMachine({ platform: "darwin", toolPath, home: folder.path });
  expect(place).toMatchObject({
    name: hostname(),
    kind: "Host",
    isSchedulable: true,
    system: { total_ram_gb: 48, cpu_name: "Apple M4 Max", backend: "Metal", unified_memory: true },
    machine: { at: "known", machine: { accelerator: "metal", generation: 4 } },
  });
  expect(place.staleReason).toBeUndefined();
  expect(place.system.gpu_vram_gb).toBeGreaterThan(24);
  expect(place.runtimes.map(({ name }) => name)).toContain("llamacpp");
  expect(place.models).toContainEqual({ source: "tiny.gguf", runtime: "llamacpp", sizeBytes: 3 });
});

test("a Linux machine is read without a cluster", async () => {
  const place = await readLocalMachine({ platform: "linux", toolPath: "/nonexistent" });
  expect(place).toMatchObject({ name: hostname(), kind: "Node", machine: { at: "known" } });
  expect(place.system.cpu_cores).toBe(cpus().length);
  expect(place.system.total_ram_gb).toBeLessThanOrEqual(Math.ceil(totalmem() / GIB));
});
