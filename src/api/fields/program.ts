/** A native program as an engine: how it is started, probed and sized. */
import { z } from "zod";
import { bytes } from "./shared.ts";

const argument = z.string().max(4096);
const httpPath = (description: string) =>
  z
    .string()
    .max(1024)
    .regex(/^\/\S*$/)
    .describe(description);

export const inFlightProbeSchema = z.object({
  path: httpPath("HTTP path of its metrics, in the Prometheus text format.").default("/metrics"),
  gauges: z
    .array(
      z
        .string()
        .max(256)
        .regex(/^[a-zA-Z_:][a-zA-Z0-9_:]*$/),
    )
    .min(1)
    .max(16)
    .meta({
      description:
        "Names of the gauges that are added up, all series of each: requests running, requests queued. One that is missing makes the number unknown.",
      "x-kubernetes-list-type": "atomic",
    }),
});

const checkSchema = z.object({
  httpPath: httpPath("HTTP path that must answer with 200 to 399.").optional(),
  exec: z
    .array(argument)
    .min(1)
    .max(256)
    .describe("Program and arguments that must exit with 0, on the host.")
    .optional(),
});

export const programSchema = z.object({
  command: z
    .array(argument)
    .min(1)
    .max(512)
    .describe(
      "Absolute path of the program, or the name of one that its host finds in generic.roots; then its arguments.",
    ),
  env: z
    .array(
      z.object({
        name: z.string().min(1).max(256).describe("Name of the variable."),
        value: z.string().max(32768).describe("Its value."),
      }),
    )
    .max(256)
    .describe("Environment beside what every engine gets.")
    .default([]),
  tty: z.boolean().describe("Run it in a terminal, to which `metalbridge attach` connects.").optional(),
  liveness: checkSchema.describe("Health probe. Neither httpPath nor exec: a TCP connection.").default({}),
  readiness: checkSchema
    .describe("What must succeed once before clients are sent to it. Absent: the health probe.")
    .optional(),
  inFlightProbe: inFlightProbeSchema.describe("Where it reports its requests in flight.").optional(),
  memoryBytes: bytes("Memory claim. Absent: from the size of the weights.").optional(),
});

export type InFlightProbe = z.output<typeof inFlightProbeSchema>;
export type ProgramCheck = z.output<typeof checkSchema>;
/** Texts may hold placeholders such as `{{port}}`. */
export type ProgramSpec = z.output<typeof programSchema>;
