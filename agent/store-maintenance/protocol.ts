/** What `metalbridge models` asks of the agent on its machine, and what it answers: one line of JSON each. */
import * as z from "zod";
import type { ErrorCode, Remedy } from "../../src/api/errors.ts";
import { formatSchema } from "../../src/api/fields/shared.ts";
import type { FetchProgress, StoredModelInfo } from "../store/types.ts";
import type { VerifiedFile } from "../store/verification.ts";

const source = z.string().min(1).max(2048);
const file = z.string().min(1).max(1024);

/** Maximum length of a command (bytes): a list of all sources of a large store fits. */
export const COMMAND_BYTES_MAX = 4 * 1024 ** 2;
/** Maximum length of an answer (bytes): a list of all models of a store fits. */
export const REPLY_BYTES_MAX = 16 * 1024 ** 2;

export const modelCommandSchema = z.discriminatedUnion("do", [
  z.strictObject({ do: z.literal("list") }),
  z.strictObject({
    do: z.literal("pull"),
    source,
    files: z.array(file).max(512).optional(),
    mmproj: file.optional(),
    sha256: z.string().max(64).optional(),
    quantization: z.string().max(64).optional(),
    format: formatSchema.optional(),
  }),
  z.strictObject({ do: z.literal("pin"), source }),
  z.strictObject({ do: z.literal("unpin"), source }),
  z.strictObject({ do: z.literal("rm"), source }),
  z.strictObject({ do: z.literal("gc") }),
  z.strictObject({ do: z.literal("verify"), sources: z.array(source).max(1_000).optional() }),
]);

export type ModelCommand = z.output<typeof modelCommandSchema>;

export type ModelResult =
  | { readonly at: "models"; readonly models: readonly StoredModelInfo[] }
  | { readonly at: "verified"; readonly files: readonly VerifiedFile[] }
  | { readonly at: "changed"; readonly isChanged: boolean; readonly sizeBytes?: number };

/** Progress any number of times, then an answer or a failure. */
export type ModelReply =
  | { readonly at: "progress"; readonly progress: FetchProgress }
  | { readonly at: "failed"; readonly code: ErrorCode; readonly message: string; readonly remedy: Remedy }
  | ModelResult;
