/** The key `omlx` of the agent's configuration. */
import * as z from "zod";
import { absolutePath, loopbackAddress, path } from "../driver/config-fields.ts";

export const omlxConfig = z
  .strictObject({
    programs: z.array(path).describe("omlx programs to try, in order, before those on PATH.").default([]),
    address: loopbackAddress("127.0.0.1:8000")
      .describe(
        "Address of an oMLX server that already runs on this machine, for example 127.0.0.1:8000. The agent loads and unloads its own models on that server, but never starts or stops it. Requires omlx.basePath and omlx.modelDir. If unset, the agent starts its own server.",
      )
      .optional(),
    keyFile: path
      .describe("File with that server's main API key. If unset, requests are sent without a key.")
      .optional(),
    basePath: path
      .describe(
        "Base path of that server, usually ~/.omlx. The agent writes the settings of its own models there.",
      )
      .optional(),
    modelDir: path.describe("Model folder of that server. The agent links its own models there.").optional(),
    cacheRoots: z
      .array(absolutePath)
      .describe(
        "Folders that pagedSSDCacheDir of services may be in. If empty, pagedSSDCacheDir is not allowed.",
      )
      .default([]),
  })
  .refine(
    ({ address, basePath, modelDir }) =>
      address === undefined || (basePath !== undefined && modelDir !== undefined),
    { path: ["address"], message: "needs omlx.basePath and omlx.modelDir" },
  )
  .prefault({});

export type OmlxConfig = z.output<typeof omlxConfig>;
