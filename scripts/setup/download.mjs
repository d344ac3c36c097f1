/** Downloads that resume, check what they got, and give up in seconds where there is no network. */
import { createHash } from "node:crypto";
import {
  createReadStream,
  createWriteStream,
  existsSync,
  mkdirSync,
  renameSync,
  rmSync,
  statSync,
} from "node:fs";
import { dirname } from "node:path";
import { Readable } from "node:stream";
import { pipeline } from "node:stream/promises";
import { SetupError } from "./steps.mjs";

const CONNECT_TIMEOUT_MS = 5_000;
const STALL_TIMEOUT_MS = 30_000;
const MAX_TEXT_BYTES = 4 * 1024 * 1024;

/** Small text, bounded in size and time. */
export async function fetchText(url) {
  const { response } = await open(url, {});
  const text = await response.text();
  if (text.length > MAX_TEXT_BYTES) throw new SetupError(`${url} is larger than expected`);
  return text;
}

/** Leaves the whole file at `target`, or throws SetupError; a broken attempt continues at `target.part`. */
export async function download(url, target, { digest, stallMs } = {}) {
  if (existsSync(target)) return;
  mkdirSync(dirname(target), { recursive: true });
  const part = `${target}.part`;
  const have = statSync(part, { throwIfNoEntry: false })?.size ?? 0;
  const { response, abort } = await open(url, have > 0 ? { range: `bytes=${have}-` } : {}, [416]);
  if (response.status === 416) {
    rmSync(part, { force: true });
    throw new SetupError(`${url}: the partial download did not fit and was removed; run setup again`);
  }
  // Some servers answer a range with status 200 and Content-Range.
  const isRest =
    response.headers.get("content-range")?.startsWith(`bytes ${have}-`) ?? response.status === 206;
  const flags = isRest ? "a" : "w";
  const file = createWriteStream(part, { flags });
  await pipeline(
    Readable.fromWeb(response.body),
    watchForStall(abort, stallMs ?? STALL_TIMEOUT_MS),
    file,
  ).catch(async (cause) => {
    // A write that is still under way counts for the next attempt.
    if (!file.closed) await new Promise((resolve) => file.once("close", resolve));
    throw new SetupError(
      `${url}: the download broke off (${cause.message}); run setup again to continue`,
      [],
      { cause },
    );
  });
  if (digest !== undefined) await checkDigest(part, digest, url);
  renameSync(part, target);
}

async function open(url, headers, alsoAllowed = []) {
  const controller = new AbortController();
  const timer = setTimeout(() => controller.abort(new Error("no response in time")), CONNECT_TIMEOUT_MS);
  try {
    const response = await fetch(url, { headers, signal: controller.signal, redirect: "follow" });
    if (!response.ok && !alsoAllowed.includes(response.status)) {
      controller.abort();
      throw new Error(`it answered ${response.status}`);
    }
    return { response, abort: () => controller.abort(new Error("stalled")) };
  } catch (cause) {
    const why = cause.cause?.code ?? cause.cause?.message ?? cause.message;
    throw new SetupError(`${url} cannot be reached (${why})`, [], { cause });
  } finally {
    clearTimeout(timer);
  }
}

function watchForStall(abort, stallMs) {
  return async function* (source) {
    let timer = setTimeout(abort, stallMs);
    try {
      for await (const chunk of source) {
        clearTimeout(timer);
        timer = setTimeout(abort, stallMs);
        yield chunk;
      }
    } finally {
      clearTimeout(timer);
    }
  };
}

async function checkDigest(file, { algorithm, hex }, url) {
  const hash = createHash(algorithm);
  for await (const chunk of createReadStream(file)) hash.update(chunk);
  const found = hash.digest("hex");
  if (found === hex) return;
  rmSync(file, { force: true });
  throw new SetupError(`${url}: ${algorithm} is ${found}, expected ${hex}; the file was removed`);
}
