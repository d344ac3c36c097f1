/** The result of a download Job, which is the termination message of its container. Pure. */
import { z } from "zod";
import { type ErrorCode, errorCatalog } from "../api/errors.ts";
import { ggufSchema } from "../api/fields/gguf.ts";
import { formatSchema } from "../api/fields/shared.ts";
import { truncateBytes } from "../util/text.ts";

const name = z.string().min(1).max(1024);

const fetchedSchema = z.object({
  code: z.literal("Fetched"),
  /** SHA-256 of the main file; absent for a file that is used in place without a digest. */
  sha256: z.string().length(64).optional(),
  sizeBytes: z.int().min(0),
  /** The path that an engine opens, relative to the folder of the volume. */
  file: name,
  mmproj: name.optional(),
  /** Names of all files, the main file first; the first ones only where there are many. */
  files: z.array(name).max(512),
  format: formatSchema.optional(),
  revision: z.string().max(256).optional(),
  weightsBytes: z.int().min(0).optional(),
  /** Read from the config.json of safetensors. */
  quantization: z.string().max(128).optional(),
  gguf: ggufSchema.optional(),
});

const failedSchema = z.object({
  code: z.custom<ErrorCode>((value) => typeof value === "string" && Object.hasOwn(errorCatalog, value)),
  message: z.string(),
  /** The same Job may succeed later with nothing changed. */
  isRetryable: z.boolean(),
});

const resultSchema = z.union([fetchedSchema, failedSchema]);

export type Fetched = z.output<typeof fetchedSchema>;
export type FetchFailed = z.output<typeof failedSchema>;
export type FetchResult = Fetched | FetchFailed;

/** Exit codes of `metalbridge fetch`; the Job's failure policy knows them. */
export const FETCH_EXIT = {
  /** An expected failure that stays until the spec, the source or the volume changes. */
  final: 1,
  /** Network or server: a later attempt resumes. */
  retryable: 75,
} as const;

export function isFetched(result: FetchResult): result is Fetched {
  return result.code === "Fetched";
}

/** Kubelet cuts a termination message at this size, and half a JSON object is none. */
const MAX_BYTES = 4096;

/** As it is written, at most 4096 bytes: what is too long for that is shortened, the facts an engine needs last. */
export function renderFetchResult(result: FetchResult): string {
  if (!isFetched(result)) {
    const cutTo = (bytes: number) =>
      JSON.stringify({ ...result, message: truncateBytes(result.message, bytes) });
    // JSON may write six bytes for one.
    return sizeOf(cutTo(2048)) <= MAX_BYTES ? cutTo(2048) : cutTo(512);
  }
  const { gguf, ...rest } = result;
  const { sizing: _, ...counts } = gguf ?? {};
  const withGguf = gguf === undefined ? rest : { ...rest, gguf };
  const shorter = [
    withGguf,
    { ...withGguf, files: result.files.slice(0, 16) },
    { ...withGguf, files: result.files.slice(0, 1) },
    { ...rest, files: result.files.slice(0, 1), ...(gguf === undefined ? {} : { gguf: counts }) },
    { ...rest, files: [] },
  ];
  const fitting = shorter.map((value) => JSON.stringify(value)).find((text) => sizeOf(text) <= MAX_BYTES);
  return fitting ?? renderFetchResult({ code: "FileNameNotAllowed", message: TOO_LONG, isRetryable: false });
}

const TOO_LONG = "the names of the model's files are too long to report";

/** Undefined for what no download Job wrote. */
export function parseFetchResult(text: string | undefined): FetchResult | undefined {
  // Kubelets truncate these texts, but any client with the right to write pod status can exceed the limit.
  if (text === undefined || text.length > MAX_BYTES) return undefined;
  try {
    const parsed = resultSchema.safeParse(JSON.parse(text));
    return parsed.success ? parsed.data : undefined;
  } catch (error) {
    if (error instanceof SyntaxError) return undefined;
    throw error;
  }
}

function sizeOf(text: string): number {
  return new TextEncoder().encode(text).length;
}
