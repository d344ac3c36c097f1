/** A native program as an engine: its command, probes and memory claim. */
import { z } from "zod";
import { bytes, int32, nonEmpty, objectName } from "./shared.ts";

const argument = z.string().max(4096);
const httpPath = (description: string) =>
  z
    .string()
    .max(1024)
    .regex(/^\/\S*$/)
    .describe(description);

export const inFlightProbeSchema = z.object({
  path: httpPath("HTTP path of the program's metrics, in the Prometheus text format.").default("/metrics"),
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
        "Names of the gauges whose series are added up, for example running and queued requests. If one is missing, the number of requests is unknown.",
      "x-kubernetes-list-type": "atomic",
    }),
});

const checkSchema = z.object({
  httpPath: httpPath("HTTP path that must return a status from 200 to 399.").optional(),
  exec: z
    .array(argument)
    .min(1)
    .max(256)
    .describe("Command that must exit with 0 on the host: the program and its arguments.")
    .optional(),
});

const memoryFormulaSchema = z.object({
  weightsPercent: int32(0, 1000).describe("Percentage of the size of the weights."),
  extraBytes: bytes("Memory in addition to that, in bytes."),
});

export const programSchema = z.object({
  command: z
    .array(argument)
    .min(1)
    .max(512)
    .describe(
      "Absolute path of the program, or the name of a program in generic.roots of the host, followed by its arguments.",
    ),
  env: z
    .array(
      z.object({
        name: nonEmpty(256).describe("Name of the environment variable."),
        value: z.string().max(32768).describe("Value of the environment variable."),
      }),
    )
    .max(256)
    .describe("Environment variables of the program, in addition to those of every engine.")
    .default([]),
  tty: z
    .boolean()
    .describe("If true, the program runs in a terminal to which `metalbridge attach` connects.")
    .optional(),
  liveness: checkSchema
    .describe("Health probe. Without httpPath and exec, a TCP connection must succeed.")
    .default({}),
  readiness: checkSchema
    .describe(
      "Probe that must succeed once before the program receives requests. Defaults to the health probe.",
    )
    .optional(),
  inFlightProbe: inFlightProbeSchema.describe("Gauges of requests in flight.").optional(),
  memoryBytes: bytes(
    "Memory claim in bytes. If absent, it is derived from the size of the weights.",
  ).optional(),
  memoryFormula: memoryFormulaSchema
    .describe("Memory claim relative to the size of the weights. Ignored with memoryBytes.")
    .optional(),
  backend: objectName(
    "Name of the BackendRuntime that the command is from. The host runs it only if its configuration allows this name and the path of the program.",
  ).optional(),
});

export type ProgramCheck = z.output<typeof checkSchema>;
/** Its texts may contain placeholders such as `{{port}}`. */
export type ProgramSpec = z.output<typeof programSchema>;
