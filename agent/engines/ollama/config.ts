/** The key `ollama` of the agent's configuration. */
import * as z from "zod";
import { endpoint, loopbackAddress, path } from "../../config/fields/places.ts";

export const ollamaConfig = z
  .strictObject({
    programs: z.array(path).describe("ollama programs to try, in order, before those on PATH.").default([]),
    address: loopbackAddress("127.0.0.1:11434")
      .describe(
        "Ollama server that runs on this machine already, for example 127.0.0.1:11434. It is used as it is: the agent loads and unloads its own models, and never starts or stops it. Absent: the agent starts its own.",
      )
      .optional(),
    registry: endpoint
      .describe("Registry that ollama:// sources without a host are pulled from. Absent: Ollama's own.")
      .optional(),
  })
  .prefault({});

export type OllamaConfig = z.output<typeof ollamaConfig>;
