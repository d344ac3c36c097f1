/** Model: where weights come from and what they need; status tells what they are. */
import { z } from "zod";
import { conditionsSchema } from "./conditions.ts";
import { ggufSchema } from "./fields/gguf.ts";
import { hardwareSchema } from "./fields/hardware.ts";
import { tolerationsSchema } from "./fields/kubernetes.ts";
import { quantity } from "./fields/quantity.ts";
import {
  bytes,
  formatSchema,
  hostName,
  localReference,
  refreshPolicySchema,
  relativeFile,
  sha256Schema,
} from "./fields/shared.ts";
import { metadataSchema } from "./metadata.ts";

const SOURCE =
  "^((https?|file|pvc|hf|s3|oss|gs|modelscope|ollama)://[^\\\\s]+|/[^\\\\s]+|[a-zA-Z0-9][a-zA-Z0-9_./@-]*)$";

const modelSourceSchema = z
  .string()
  .min(1)
  .max(2048)
  .meta({
    description:
      "Where the weights come from: hf://org/repo[/file][@revision] (or a bare org/repo), https://…, file:///… or an absolute path on the host, pvc://claim/path, s3://, oss://, gs://, modelscope://, ollama://name:tag.",
    "x-kubernetes-validations": [
      {
        rule: `self.matches('${SOURCE}')`,
        message:
          "spec.source must be hf://org/repo, https://…, file:///…, an absolute path, pvc://claim/path, s3://, oss://, gs://, modelscope:// or ollama://name:tag, without spaces",
      },
    ],
  });

const modelSpecSchema = z
  .object({
    source: modelSourceSchema,
    sha256: sha256Schema
      .describe("SHA-256 of the main file in hex; a download that differs is refused. Absent: not checked.")
      .optional(),
    sourceSecretRef: localReference(
      "Secret with credentials for the source: HF_TOKEN, or AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_REGION, AWS_ENDPOINT_URL.",
      "Name of the Secret, in the Model's namespace.",
    ).optional(),
    refreshPolicy: refreshPolicySchema
      .describe(
        "IfNotPresent: fetched once. OnChange: looked at again, and replaced when the source has changed.",
      )
      .default("IfNotPresent"),
    prefetch: z
      .boolean()
      .describe("Fetches the weights before any service uses them (Linux nodes).")
      .default(false),
    prefetchTolerations: tolerationsSchema("Tolerations of the prefetching pods.").optional(),
    format: formatSchema
      .describe("Format of the weights. Absent: by the source (ollama:// is ollama, a .gguf file is gguf).")
      .optional(),
    quantization: z
      .string()
      .max(64)
      .describe(
        "Quantization to choose where the source has several, for example Q4_K_M; also shown in listings.",
      )
      .optional(),
    files: z
      .array(relativeFile("A file of the source, relative to it."))
      .max(256)
      .meta({
        description:
          "Files to fetch when the source has many, the main file first. Absent: the file or files the source names.",
        "x-kubernetes-list-type": "atomic",
      })
      .optional(),
    mmproj: relativeFile(
      "Projector file of the same source, for models that take images or sound.",
    ).optional(),
    hardware: hardwareSchema.describe("Accelerator and memory limits. Absent: cpu.").optional(),
    resources: z
      .object({
        cpu: quantity("CPU of the download Job, for example 2 or 500m.").optional(),
        memory: quantity("Memory of the download Job, for example 1Gi.").optional(),
      })
      .describe("Resources of the Job that fetches the weights on Linux nodes.")
      .optional(),
  })
  .meta({
    "x-kubernetes-validations": [
      {
        rule: "!(has(self.sha256) && self.source.startsWith('ollama://'))",
        message: "spec.sha256 cannot be checked for an ollama:// source: Ollama verifies its own blobs",
      },
      {
        rule: "!has(self.format) || (self.format == 'ollama') == self.source.startsWith('ollama://')",
        message: "spec.format ollama goes with an ollama:// source, and with no other",
      },
      {
        rule: "!((has(self.files) || has(self.mmproj)) && self.source.startsWith('ollama://'))",
        message: "spec.files and spec.mmproj have no meaning for an ollama:// source",
      },
    ],
  });

const MODEL_PHASES = ["Pending", "Downloading", "Ready", "Failed"] as const;

const modelStatusSchema = z.object({
  phase: z
    .enum(MODEL_PHASES)
    .describe(
      "Ready on Metal means that the source was resolved and its header read; hosts fetch on first use.",
    )
    .optional(),
  reason: z.string().max(63).describe("Stable code for the phase; see docs/errors.md.").optional(),
  message: z.string().max(4096).describe("One sentence: what is so and what to do.").optional(),
  observedGeneration: z.int().min(0).describe("The metadata.generation this status was made for.").optional(),
  sizeBytes: bytes("Bytes of all files together.").optional(),
  size: z.string().max(32).describe("The same for people, for example 4.5 GiB.").optional(),
  weightsBytes: bytes("Bytes of the tensors, by the header; what the weights take in memory.").optional(),
  sha256: z.string().max(64).describe("Checksum of the main file, where it is known.").optional(),
  format: formatSchema.describe("Format that was found or follows from the source.").optional(),
  files: z
    .array(z.string().max(1024))
    .max(512)
    .describe("Files that the source resolved to, the main file first.")
    .optional(),
  revision: z
    .string()
    .max(256)
    .describe("Revision or ETag that the source had when it was last looked at.")
    .optional(),
  cacheKey: z.string().max(64).describe("Key under which stores keep the weights.").optional(),
  gguf: ggufSchema.describe("What the header of the GGUF file tells.").optional(),
  hosts: z
    .array(
      z.object({
        name: hostName("The Host that has a copy."),
        sizeBytes: bytes("Bytes of that copy.").optional(),
        sha256: z.string().max(64).describe("Checksum of that copy's main file.").optional(),
      }),
    )
    .max(1000)
    .meta({
      description: "Hosts that have a verified copy.",
      "x-kubernetes-list-type": "map",
      "x-kubernetes-list-map-keys": ["name"],
    })
    .optional(),
  conditions: conditionsSchema.optional(),
});

export const modelSchema = z.object({
  apiVersion: z.string().exactOptional(),
  kind: z.string().exactOptional(),
  metadata: metadataSchema,
  spec: modelSpecSchema.describe("The weights and what they need."),
  status: modelStatusSchema.describe("What is known about the weights.").optional(),
});

export type ModelSpec = z.output<typeof modelSpecSchema>;
export type ModelStatus = z.output<typeof modelStatusSchema>;
export type Model = z.output<typeof modelSchema>;
