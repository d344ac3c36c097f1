/** The protocol between `metalbridge models` and the agent on the same machine: one line of JSON per message. */
import * as z from "zod";
import type { ErrorCode, Remedy } from "../../src/api/errors.ts";
import { formatSchema } from "../../src/api/fields/shared.ts";
import type { FetchProgress, StoredModelInfo } from "../store/types.ts";
import type { VerifiedFile } from "../store/verification.ts";

const source = z.string().min(1).max(2048);
const file = z.string().min(1).max(1024);

/** Maximum length of a command in bytes. It fits all sources of a large store. */
export const MAX_COMMAND_BYTES = 4 * 1024 ** 2;
/** Maximum length of a reply in bytes. It fits all models of a store. */
export const MAX_REPLY_BYTES = 16 * 1024 ** 2;

export const modelCommandSchema = z.discriminatedUnion("do", [
  z.strictObject({ do: z.literal("list") }),
  z.strictObject({
    do: z.literal("pull"),
    source,
    files: z.array(file).max(512).optional(),
    ignorePatterns: z.array(file).max(64).optional(),
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

/** Any number of progress messages, followed by a result or a failure. */
export type ModelReply =
  | { readonly at: "progress"; readonly progress: FetchProgress }
  | { readonly at: "failed"; readonly code: ErrorCode; readonly message: string; readonly remedy: Remedy }
  | ModelResult;
