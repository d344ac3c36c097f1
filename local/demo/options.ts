/** Options of `metalbridge demo`, checked once. */
import { resolve } from "node:path";
import { z } from "zod";
import { DEMO_ENGINES } from "./engine.ts";

const schema = z.strictObject({
  dir: z.string().min(1).default(".metalbridge"),
  once: z.boolean().default(false),
  output: z.enum(["text", "json"]).default("text"),
  model: z.string().min(1).optional(),
  engine: z.enum(DEMO_ENGINES).default("llamacpp"),
  prompt: z.string().min(1).default("Tell me something about the sea."),
  address: z.string().optional(),
  timeoutSeconds: z.coerce.number().int().min(5).max(86_400).default(900),
});

export type DemoOptions = Readonly<z.output<typeof schema>>;

/** Throws a ZodError that names the option. */
export function parseDemoOptions(input: unknown): DemoOptions {
  const options = schema.parse(input);
  return { ...options, dir: resolve(options.dir) };
}
