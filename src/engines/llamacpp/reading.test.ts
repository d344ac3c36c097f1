import { describe, expect, it } from "vitest";
import type { Exit } from "../contract/exit.ts";
import { START_LINE } from "../contract/last-run.ts";
import { parseDevices } from "./devices.ts";
import { classifyExit, findDegraded } from "./exit.ts";
import { parseGauges } from "./gauges.ts";

describe("why an engine ended", () => {
  it.each<[string, Exit, string, string]>([
    ["unknown flag", { code: 1 }, "error: invalid argument: --mlock\n", "EngineFlagRefused"],
    [
      "bad value",
      { code: 1 },
      'error while handling argument "--cache-type-k": Unsupported cache type: q3_9\n',
      "EngineFlagRefused",
    ],
    [
      "port",
      { code: 1 },
      "0.00.1.2 E srv start: couldn't bind HTTP server socket, hostname: 127.0.0.1, port: 18085\nexiting due to HTTP server error",
      "EnginePortTaken",
    ],
    [
      "missing file",
      { code: 1 },
      "gguf_init_from_file: failed to open GGUF file '/x' (No such file or directory)\nsrv  llama_server: exiting due to model loading error",
      "EngineModelMissing",
    ],
    [
      "not a GGUF",
      { code: 1 },
      "gguf_init_from_reader: invalid magic characters: '????', expected 'GGUF'\nsrv  llama_server: exiting due to model loading error",
      "EngineBadModel",
    ],
    [
      "block size",
      { code: 1 },
      "K cache type q8_0 with block size 32 does not divide n_embd_head_k=16",
      "EngineSettingsRefused",
    ],
    [
      "Metal memory",
      { code: 1 },
      "ggml_gallocr_reserve_n: failed to allocate Metal buffer of size 12\nexiting due to model loading error",
      "EngineOutOfMemory",
    ],
    [
      "Metal memory later",
      { signal: "SIGABRT" },
      "E error: Insufficient Memory (00000008:kIOGPUCommandBufferCallbackErrorOutOfMemory)\nfatal error",
      "EngineOutOfMemory",
    ],
    ["crash", { signal: "SIGSEGV" }, "I all is well", "EngineCrashed"],
    ["killed", { signal: "SIGKILL" }, "", "EngineKilled"],
    ["asked to end", { code: 0 }, "cleaning up before exit...", "EngineKilled"],
    ["not there", { code: 127 }, "shim: 27: /x/llama-server: not found", "RuntimeNotInstalled"],
    ["not executable", { code: 126 }, "shim: 27: /x: Permission denied", "RuntimeNotExecutable"],
    ["unknown", "unknown", "", "EngineEndUnknown"],
    ["silent", { code: 1 }, "", "EngineCrashed"],
  ])("%s", (_name, exit, log, code) => {
    expect(classifyExit(exit, log).code).toBe(code);
  });

  it.each([
    "error: invalid argument: --mlock",
    "K cache type q8_0 with block size 32 does not divide n_embd_head_k=16",
    "last read: 'failed to read'",
    "missing tensor",
    "wrong shape",
    "exiting due to model loading error",
    "No such file or directory",
  ])("is never what keeps an engine from starting where it had served: %s", (line) => {
    const log = `srv log_server_r: ${line}\n`;
    expect(classifyExit({ signal: "SIGSEGV" }, log, { wasReady: true }).code).toBe("EngineCrashed");
    expect(classifyExit("unknown", log, { wasReady: true }).code).toBe("EngineEndUnknown");
    expect(classifyExit({ code: 1 }, log, { wasReady: false }).code).not.toBe("EngineCrashed");
  });

  it.each([
    ["failed to allocate Metal buffer of size 12", "EngineOutOfMemory"],
    ["couldn't bind HTTP server socket", "EnginePortTaken"],
  ])("may be another cause where it had served: %s", (line, code) => {
    expect(classifyExit({ code: 1 }, line, { wasReady: true }).code).toBe(code);
  });

  it("is memory where the system killed it while memory was short", () => {
    const { code, message } = classifyExit({ signal: "SIGKILL" }, "", { wasReady: true, memory: "critical" });
    expect(code).toBe("EngineOutOfMemory");
    expect(message).toContain("while the host's memory was critical");
    const ofOurs = classifyExit({ signal: "SIGTERM" }, "", { wasReady: true, memory: "critical" });
    expect(ofOurs.code).toBe("EngineKilled");
  });

  it("names what the log says, without time stamps", () => {
    expect(classifyExit({ code: 1 }, "error: invalid argument: --mlock\n").message).toBe(
      "the engine refused an argument: error: invalid argument: --mlock",
    );
    expect(classifyExit({ code: 3 }, "0.00.001.234 E srv  stop:   it broke\n").message).toBe(
      "the engine crashed (exit code 3): srv stop: it broke",
    );
  });

  it("looks only at the last run in the log", () => {
    const log = `failed to allocate\n${START_LINE} 2026\nerror: invalid argument: --x\n`;
    expect(classifyExit({ code: 1 }, log).code).toBe("EngineFlagRefused");
    expect(
      findDegraded(`kIOGPUCommandBufferCallbackErrorOutOfMemory\n${START_LINE} 2026\nfine\n`),
    ).toBeUndefined();
  });
});

describe("a running engine's numbers", () => {
  it("are its gauges and counters", () => {
    const metrics = `# HELP llamacpp:prompt_tokens_total Number of prompt tokens processed.
# TYPE llamacpp:prompt_tokens_total counter
llamacpp:prompt_tokens_total 3
llamacpp:tokens_predicted_total 4
llamacpp:n_decode_total 5
llamacpp:requests_processing 1
llamacpp:requests_deferred 2
`;
    const gauges = { running: 1, deferred: 2, decodeTotal: 5, tokensTotal: 7 };
    expect(parseGauges(metrics)).toEqual(gauges);
    const timed = `${metrics}llamacpp:tokens_predicted_seconds_total 0.5\n`;
    expect(parseGauges(timed)).toEqual({ ...gauges, generated: { tokens: 4, seconds: 0.5 } });
  });

  it.each([
    "",
    "<html>",
    "llamacpp:requests_processing 0",
    "llamacpp:requests_processing nan\nllamacpp:requests_deferred 0",
  ])("are unknown from %j", (text) => expect(parseGauges(text)).toBeUndefined());

  it("include the lines after which only errors come", () => {
    const line = "0.12.3.4 E ggml_metal_synchronize: error: command buffer 0 failed with status 5\n";
    expect(findDegraded(line)).toBe("ggml_metal_synchronize: error: command buffer 0 failed with status 5");
    expect(findDegraded("I all is well")).toBeUndefined();
  });

  it.each([
    "llama_decode: failed to decode, ret = -2",
    "llama_decode: failed to decode, ret = -3",
    "srv update_slots: Compute error. i = 0, n_batch = 2048, ret = -2",
  ])("include a decode that failed for the engine's sake: %s", (line) => {
    expect(findDegraded(`0.12.3.4 E ${line}\n`)).toBe(line);
  });

  it.each([
    "llama_decode: failed to decode, ret = -1",
    "srv update_slots: Invalid input batch. i = 0, n_batch = 2048, ret = -1",
    "srv update_slots: failed to find free space in the KV cache, retrying with smaller batch size, off = 0, n_batch = 1024, ret = 1",
    "srv update_slots: Context size has been exceeded. i = 0, n_batch = 1, ret = 1",
  ])("do not include one that failed for its request's: %s", (line) => {
    expect(findDegraded(`0.12.3.4 E ${line}\n`)).toBeUndefined();
  });

  it("finds matches in a single 256 KiB log line, and quotes only their surroundings", () => {
    for (const filler of ["\0", "x", "command buffer 0 ", "tensor '"]) {
      const long = filler.repeat(Math.ceil((256 * 1024) / filler.length));
      expect(findDegraded(long)).toBeUndefined();
      expect(classifyExit({ code: 1 }, long).code).toBe("EngineCrashed");
      expect(findDegraded(`${long}command buffer 7 failed with status 5${long}`)).toContain(
        "buffer 7 failed",
      );
    }
    const text = findDegraded(`${"\0".repeat(9_000)}0.12.3.4 E ggml: command buffer 7 failed with status 5`);
    expect(text).toBe("ggml: command buffer 7 failed with status 5");
  });
});

describe("devices", () => {
  it("of a Mac", () => {
    const text = `Available devices:
  MTL0: Apple M4 Max (110100 MiB, 110100 MiB free)
  BLAS: Accelerate (0 MiB, 0 MiB free)
`;
    expect(parseDevices(text)).toEqual([
      {
        name: "MTL0",
        description: "Apple M4 Max",
        totalBytes: 110100 * 2 ** 20,
        freeBytes: 110100 * 2 ** 20,
      },
      { name: "BLAS", description: "Accelerate", totalBytes: 0, freeBytes: 0 },
    ]);
  });

  it("may be none, or not reported", () => {
    expect(parseDevices("Available devices:\n  (none)\n")).toEqual([]);
    expect(parseDevices("error")).toBeUndefined();
  });
});
