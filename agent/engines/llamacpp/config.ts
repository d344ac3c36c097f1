/** The key `llamaServer` of the agent's configuration. */
import * as z from "zod";
import { path } from "../driver/config-fields.ts";

export const llamaServerConfig = z
  .array(path)
  .describe("llama-server programs to try, in order, before those on PATH.")
  .default([]);
