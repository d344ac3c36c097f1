/** Starts llama-server with a model, and reads from its log which buffers it allocates. */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { MetalbridgeError } from "../../src/api/errors.ts";
import type { ClaimSettings } from "../../src/engines/llamacpp/claim/claim-settings.ts";
import { plainArguments } from "../../src/engines/llamacpp/settings.ts";
import { type PrintedBuffers, parsePrintedBuffers } from "./printed.ts";

const START_MS = 60_000;
const MAX_LOG_CHARACTERS = 4 << 20;
const EXCERPT_CHARACTERS = 500;

/** Kills the engine as soon as it has allocated its buffers. */
export async function measureBuffers(
  program: string,
  model: string,
  settings: ClaimSettings,
  { signal, more = [] }: { readonly signal?: AbortSignal; readonly more?: readonly string[] } = {},
): Promise<PrintedBuffers> {
  const child = spawn(program, [...argumentsFor(model, settings), ...more], {
    stdio: ["ignore", "ignore", "pipe"],
    env: { GGML_NO_BACKTRACE: "1" },
  });
  const deadline = AbortSignal.timeout(START_MS);
  const stop = () => child.kill("SIGKILL");
  const ended = once(child, "close").catch((cause: unknown) => cause);
  for (const one of [deadline, ...(signal === undefined ? [] : [signal])]) {
    if (one.aborted) stop();
    one.addEventListener("abort", stop, { once: true });
  }
  try {
    const log = await logUntil(child, /llama_server: model loaded|listening on http/);
    const printed = parsePrintedBuffers(log);
    if (printed !== undefined) return printed;
    const excerpt = log.trim().slice(-EXCERPT_CHARACTERS);
    throw new MetalbridgeError(
      "CalibrationFailed",
      `${program} printed no buffer sizes that can be read: ${excerpt}`,
    );
  } finally {
    stop();
    await ended;
    signal?.removeEventListener("abort", stop);
  }
}

/** Reads the log until the line appears, or until the end. */
async function logUntil(child: ChildProcess, line: RegExp): Promise<string> {
  let log = "";
  if (child.stderr === null) return log;
  try {
    for await (const chunk of child.stderr) {
      log = (log + String(chunk)).slice(-MAX_LOG_CHARACTERS);
      if (line.test(log)) return log;
    }
  } catch (cause) {
    throw new MetalbridgeError("CalibrationFailed", "the engine's output cannot be read", undefined, {
      cause,
    });
  }
  return log;
}

function argumentsFor(model: string, settings: ClaimSettings): string[] {
  const { contextSize, parallelSlots, kvUnified, flashAttention = true } = settings;
  const values: Readonly<Record<string, string | number | undefined>> = {
    "-m": model,
    "--host": "127.0.0.1",
    // Any free port, because the engine gets no requests.
    "--port": 0,
    "-c": contextSize,
    "-np": parallelSlots,
    "-fa": flashAttention ? "on" : "off",
    "-ctk": settings.cacheTypeCustomK ?? settings.cacheTypeK,
    "-ctv": settings.cacheTypeCustomV ?? settings.cacheTypeV,
    "-lv": 4,
    "-fit": "off",
    "--cache-ram": 0,
  };
  const given = Object.entries(values).flatMap(([flag, value]) =>
    value === undefined ? [] : [flag, String(value)],
  );
  const plain = plainArguments({ ...settings, noWarmup: true }).flatMap(([, ...words]) => words);
  return [...given, kvUnified ? "-kvu" : "-no-kvu", ...plain];
}
