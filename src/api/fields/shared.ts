/** Fields that several kinds share: names, references, formats, priorities, limits. */
import { z } from "zod";

const DNS_LABEL = /^[a-z0-9]([-a-z0-9]*[a-z0-9])?$/;
const DNS_SUBDOMAIN = /^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$/;

export const int32 = (min: number, max: number) => z.int32().min(min).max(max);
export const nonEmpty = (maxLength: number) => z.string().min(1).max(maxLength);

/** Name of an object in the same namespace, such as a Model or a Secret. */
export function objectName(description: string) {
  return nonEmpty(253).regex(DNS_SUBDOMAIN).describe(description);
}

/** Name of a Host. */
export function hostName(description: string) {
  return nonEmpty(63).regex(DNS_LABEL).describe(description);
}

export function localReference(description: string, nameDescription: string) {
  return z.object({ name: objectName(nameDescription) }).describe(description);
}

const FORMATS = ["gguf", "mlx", "safetensors", "ollama", "pytorch", "custom"] as const;
export const formatSchema = z.enum(FORMATS);
export type ModelFormat = z.output<typeof formatSchema>;

export const refreshPolicySchema = z.enum(["IfNotPresent", "OnChange"]);
export const changeMarkerSchema = z
  .string()
  .max(64)
  .describe(
    "Hash that identifies the content of the source, based on checksums, or on ETag (else Last-Modified) and size. If the source has a different hash, its content has changed and is not fetched. If absent, the content is not verified.",
  );

export const prioritySchema = z.enum(["critical", "high", "normal", "low", "batch"]);
export type Priority = z.output<typeof prioritySchema>;

export const sha256Schema = z
  .string()
  .max(64)
  .regex(/^[a-fA-F0-9]{64}$/);

/** SHA-256 of a certificate. */
export const fingerprintSchema = z
  .string()
  .max(64)
  .regex(/^[0-9a-f]{64}$/);

/** Path of a file, relative to the source. It cannot leave the source's folder. */
export function relativeFile(description: string) {
  return nonEmpty(512)
    .regex(/^[^/\s][^\s]*$/)
    .meta({
      description,
      "x-kubernetes-validations": [
        {
          rule: "!self.matches('(^|/)[.][.](/|$)')",
          message: "a file path must stay inside the source: no '..'",
        },
      ],
    });
}

export const bytes = (description: string) => z.int().min(0).describe(description);
export const timestamp = (description: string) => z.iso.datetime({ offset: true }).describe(description);

/** Reason, message and generation in the status of kinds whose status only the controller writes. */
export const summaryFields = {
  reason: z.string().max(63).describe("Reason code of the phase; see docs/errors.md.").optional(),
  message: z
    .string()
    .max(4096)
    .describe("Human-readable description of the current state and of what to do about it.")
    .optional(),
  observedGeneration: z.int().min(0).describe("metadata.generation that this status is based on.").optional(),
};

/**
 * An IP address that other machines can reach. Agents and the gateway connect to it, so it is no name: the owner of a name
 * could point it anywhere.
 */
export function reachableAddress(field: string, pattern?: RegExp) {
  const text = z.string().min(2).max(45);
  return (pattern === undefined ? text : text.regex(pattern)).meta({
    description: "An IP address.",
    "x-kubernetes-validations": [
      {
        rule: "isIP(self) && !ip(self).isLoopback() && !ip(self).isLinkLocalUnicast() && !ip(self).isUnspecified()",
        message: `${field}: each must be an IP address that other machines can reach`,
      },
    ],
  });
}

/** No control characters and none that change the text direction, so that terminals can print the text. */
export const PRINTABLE = /^[^\p{Cc}\p{Cf}]*$/u;

/** Text that terminals can print. */
export const shortText = (maxLength: number, description: string) =>
  z.string().max(maxLength).regex(PRINTABLE).describe(description);

/** Limits the total length of a list whose single entries may be long. */
export const totalLength = (maxLength: number, label: string, field?: string) => ({
  "x-kubernetes-validations": [
    {
      rule: `self.map(one, size(${field === undefined ? "one" : `one.${field}`})).sum() <= ${maxLength}`,
      message: `${label}: at most ${maxLength} characters together`,
    },
  ],
});

const IGNORE_PATTERNS_LENGTH_MAX = 2_048;

/** Patterns of names. Each stands in every replica of a Model, so the list is short. */
export const ignorePatternsSchema = z
  .array(nonEmpty(256).regex(/^\S+$/).describe("Pattern of paths, relative to the source."))
  .max(64)
  .meta({
    description:
      "Files that are not fetched, even if files or quantization selects them. `*` matches any text, including slashes, and `?` any character; a pattern that ends with / excludes a folder. A file that the Model names must not match. Defaults to none.",
    "x-kubernetes-list-type": "atomic",
    ...totalLength(IGNORE_PATTERNS_LENGTH_MAX, "ignorePatterns"),
  });

/** A port to listen on, as a setting of a program. 0 selects a free port. */
export function listenPort(byDefault: number, description: string) {
  return z.coerce.number().int().min(0).max(65_535).default(byDefault).describe(description);
}

/** The names in a certificate, as a setting of a program. */
export function certificateNames(description: string) {
  return z
    .string()
    .default("")
    .transform((text) => (text === "" ? [] : text.split(",")))
    .pipe(z.array(z.string().min(1).max(253)).max(16))
    .describe(description);
}
