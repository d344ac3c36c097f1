/** The key `generic` of the agent's configuration. */
import * as z from "zod";
import { absolutePath } from "../driver/config-fields.ts";

export const genericConfig = z
  .strictObject({
    roots: z
      .array(absolutePath)
      .describe(
        "Programs, or folders of programs, that services with runtime generic may run as the agent's user, with any arguments. Links out of a folder are not followed. If empty, this host runs no services with runtime generic.",
      )
      .default([]),
    env: z
      .array(z.string().regex(/^[A-Za-z_][A-Za-z0-9_]*$/, "must be the name of a variable"))
      .describe(
        "Names of the environment variables that services may set for programs in generic.roots. Name none that makes a program load code, such as LD_PRELOAD, PYTHONPATH or HOME.",
      )
      .default([]),
  })
  .prefault({});

export type GenericConfig = z.output<typeof genericConfig>;
