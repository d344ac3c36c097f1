/** The key `omlx` of the agent's configuration. */
import * as z from "zod";
import { absolutePath, loopbackAddress, path } from "../../config/fields/places.ts";

export const omlxConfig = z
  .strictObject({
    programs: z.array(path).describe("omlx programs to try, in order, before those on PATH.").default([]),
    address: loopbackAddress("127.0.0.1:8000")
      .describe(
        "oMLX server that runs on this machine already, for example 127.0.0.1:8000. It is used as it is: the agent loads and unloads its own models, and never starts or stops it. Needs omlx.basePath and omlx.modelDir. Absent: the agent starts its own.",
      )
      .optional(),
    keyFile: path.describe("File with that server's main API key. Absent: it asks for none.").optional(),
    basePath: path
      .describe(
        "Base path of that server (~/.omlx by default): the agent sets its own models' settings there.",
      )
      .optional(),
    modelDir: path
      .describe("Folder in which that server looks for models: the agent links its own there.")
      .optional(),
    cacheRoots: z
      .array(absolutePath)
      .describe("Folders that pagedSSDCacheDir of services may be in. Empty: it is not allowed.")
      .default([]),
  })
  .refine(
    ({ address, basePath, modelDir }) =>
      address === undefined || (basePath !== undefined && modelDir !== undefined),
    { path: ["address"], message: "needs omlx.basePath and omlx.modelDir" },
  )
  .prefault({});

export type OmlxConfig = z.output<typeof omlxConfig>;
