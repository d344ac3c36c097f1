/** Small fields that several kinds share: names, references, formats, sources, priorities. */
import { z } from "zod";

const DNS_LABEL = /^[a-z0-9]([-a-z0-9]*[a-z0-9])?$/;
const DNS_SUBDOMAIN = /^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$/;

/** A reference to an object by name, such as a Model or a Secret, in the same namespace. */
export function objectName(description: string) {
  return z.string().min(1).max(253).regex(DNS_SUBDOMAIN).describe(description);
}

/** The name of a Host. */
export function hostName(description: string) {
  return z.string().min(1).max(63).regex(DNS_LABEL).describe(description);
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
    "Hash of what the source says of its files: checksums, or ETag (else Last-Modified) and size. With another one the source has other content, which is not fetched. Absent: not checked.",
  );

export const prioritySchema = z.enum(["critical", "high", "normal", "low", "batch"]);
export type Priority = z.output<typeof prioritySchema>;

export const sha256Schema = z
  .string()
  .max(64)
  .regex(/^[a-fA-F0-9]{64}$/);

/** Files inside a source: relative, so that nothing outside the source's own folder is reached. */
export function relativeFile(description: string) {
  return z
    .string()
    .min(1)
    .max(512)
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

/** Text that terminals show as it is: no control characters, none that change the direction of what follows. */
export const shortText = (most: number, description: string) =>
  z
    .string()
    .max(most)
    .regex(/^[^\p{Cc}\p{Cf}]*$/u)
    .describe(description);

/** A limit for a list whose entries may be long, but not all of them. */
export const totalLength = (most: number, what: string, field?: string) => ({
  "x-kubernetes-validations": [
    {
      rule: `self.map(one, size(${field === undefined ? "one" : `one.${field}`})).sum() <= ${most}`,
      message: `${what}: at most ${most} characters together`,
    },
  ],
});
