/** The key `ollama` of the agent's configuration. */
import * as z from "zod";
import { endpoint, loopbackAddress, path } from "../driver/config-fields.ts";

export const ollamaConfig = z
  .strictObject({
    programs: z.array(path).describe("ollama programs to try, in order, before those on PATH.").default([]),
    address: loopbackAddress("127.0.0.1:11434")
      .describe(
        "Address of an Ollama server that already runs on this machine, for example 127.0.0.1:11434. The agent loads and unloads its own models on that server, but never starts or stops it. If unset, the agent starts its own server.",
      )
      .optional(),
    registry: endpoint
      .describe("Registry that ollama:// sources without a host are pulled from. Default: Ollama's registry.")
      .optional(),
  })
  .prefault({});

export type OllamaConfig = z.output<typeof ollamaConfig>;
