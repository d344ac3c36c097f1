/** The key `generic` of the agent's configuration. */
import * as z from "zod";
import { absolutePath } from "../../config/fields/places.ts";

export const genericConfig = z
  .strictObject({
    roots: z
      .array(absolutePath)
      .describe(
        "Programs, or folders of programs, that services of runtime generic may run, with any arguments, as the agent's user. Links out of a folder are not followed. Empty: none, and this host runs no such service.",
      )
      .default([]),
  })
  .prefault({});

export type GenericConfig = z.output<typeof genericConfig>;
