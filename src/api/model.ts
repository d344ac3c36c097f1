/** Model: source and requirements of the weights; their metadata in status. */
import { z } from "zod";
import { SOURCE_KINDS } from "../models/source/kinds/registry.ts";
import { benchmarkResultSchema, modelBenchmarkSchema } from "./benchmark.ts";
import { conditionsSchema } from "./conditions.ts";
import { ggufSchema } from "./fields/gguf.ts";
import { hardwareSchema } from "./fields/hardware.ts";
import { labelSelectorSchema, tolerationsSchema } from "./fields/kubernetes.ts";
import { modelOrigin } from "./fields/model-origin.ts";
import { quantity } from "./fields/quantity.ts";
import {
  bytes,
  changeMarkerSchema,
  formatSchema,
  hostName,
  ignorePatternsSchema,
  localReference,
  nonEmpty,
  refreshPolicySchema,
  relativeFile,
  sha256Schema,
  summaryFields,
  timestamp,
  totalLength,
} from "./fields/shared.ts";
import { flavorRules, flavorsSchema } from "./flavors.ts";
import { objectFields } from "./metadata.ts";

const SCHEMES = SOURCE_KINDS.flatMap(({ schemes }) => schemes).join("|");
const SOURCE = `^((${SCHEMES})://[^\\\\s]+|/[^\\\\s]+|[a-zA-Z0-9][a-zA-Z0-9_./@-]*)$`;
const BUCKETS = "(s3|gs|oss)://";
const FORMS = SOURCE_KINDS.map(({ form }) => form);

const modelSourceSchema = nonEmpty(2048).meta({
  description: `Source of the weights: ${SOURCE_KINDS.map(({ form, fullForm = form }) => fullForm).join(", ")}.`,
  "x-kubernetes-validations": [
    {
      rule: `self.matches('${SOURCE}')`,
      message: `spec.source must be ${FORMS.slice(0, -1).join(", ")} or ${FORMS.at(-1)}, without spaces`,
    },
    {
      rule: `!self.matches('^${BUCKETS}') || self.matches('^${BUCKETS}[a-zA-Z0-9][a-zA-Z0-9._-]*/[^/]')`,
      message: "spec.source needs the bucket and a path in it, as in s3://bucket/path/model.gguf",
    },
  ],
});

/** Limited because each replica of the Model, and each Host that prefetches it, contains the files. */
const FILES_LENGTH_MAX = 32_768;

const modelSpecSchema = z
  .object({
    source: modelSourceSchema,
    ...modelOrigin,
    sha256: sha256Schema
      .describe(
        "Required SHA-256 of the main file, in hexadecimal digits. A download that differs is rejected. If absent, the checksum is not verified.",
      )
      .optional(),
    sourceSecretRef: localReference(
      "Secret with credentials for the source: HF_TOKEN; username and password, or .dockerconfigjson, for a registry; or AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_REGION and AWS_ENDPOINT_URL. docs/models.md lists the keys for every kind of source.",
      "Name of the Secret, in the Model's namespace.",
    ).optional(),
    refreshPolicy: refreshPolicySchema
      .describe(
        "IfNotPresent pins the Model to the revision that is found first. OnChange makes the controller check the source periodically, without downloading it; changed content creates a new revision of each service that uses the Model, which is rolled out according to the service's settings. Defaults to IfNotPresent.",
      )
      .default("IfNotPresent"),
    prefetch: z
      .boolean()
      .describe(
        "If true, hosts download the weights before a service needs them: the hosts in prefetchHosts, or all hosts that have a runtime and enough memory for the model. These copies are evicted last. Weights for pods are always downloaded when the Model is created.",
      )
      .default(false),
    prefetchHosts: z
      .object({
        names: z
          .array(hostName("Name of a Host."))
          .max(256)
          .meta({
            description: "Names of Hosts. If absent or empty, any Host matches.",
            "x-kubernetes-list-type": "set",
          })
          .optional(),
        selector: labelSelectorSchema.describe("Label selector for Hosts.").optional(),
      })
      .describe(
        "Hosts that download the weights before a service needs them, regardless of prefetch and of what they can run.",
      )
      .optional(),
    prefetchTolerations: tolerationsSchema(
      "Tolerations of the pods that download the weights to a volume. Ignored on hosts.",
    ).optional(),
    format: formatSchema
      .describe(
        "Format of the weights. If absent, it is derived from the source: gguf for a .gguf file, ollama for an ollama:// source. A model of format ollama runs in Ollama only; set gguf to fetch its weights for other runtimes.",
      )
      .optional(),
    quantization: z
      .string()
      .max(64)
      .describe(
        "Quantization to select if the source has several, for example Q4_K_M. For safetensors, a name such as AWQ or FP8 also decides which GPUs can run the model; if absent, the files do.",
      )
      .optional(),
    files: z
      .array(relativeFile("Path of a file, relative to the source."))
      .max(256)
      .meta({
        description:
          "Files to fetch, relative to the source, the main file first. If the source names a file, that file is the main file and these are fetched in addition. `*` matches any text and `?` any character, if the source can list its files. Defaults to the file in the source, or to its only model.",
        "x-kubernetes-list-type": "atomic",
        ...totalLength(FILES_LENGTH_MAX, "spec.files"),
      })
      .optional(),
    ignorePatterns: ignorePatternsSchema.optional(),
    mmproj: relativeFile(
      "Projector file of the same source, for models with image or audio input.",
    ).optional(),
    hardware: hardwareSchema
      .describe("Accelerator and memory limits. If absent, the model runs on hosts without limits.")
      .optional(),
    flavors: flavorsSchema.optional(),
    resources: z
      .object({
        cpu: quantity("CPU request of the download Job, for example 2 or 500m.").optional(),
        memory: quantity("Memory request of the download Job, for example 1Gi.").optional(),
      })
      .describe("Resources of the Job that downloads the weights to a volume. Ignored on hosts.")
      .optional(),
    benchmark: modelBenchmarkSchema
      .describe(
        "Measurement of the model on each class of machines. It runs once per class while a machine is idle, and again after an engine update.",
      )
      .optional(),
  })
  .meta({
    "x-kubernetes-validations": [
      {
        rule: "!(has(self.sha256) && self.source.startsWith('ollama://')) || (has(self.format) && self.format == 'gguf')",
        message:
          "spec.sha256 cannot be checked for an ollama:// source that Ollama pulls: set spec.format to gguf",
      },
      {
        rule: "!has(self.format) || (self.source.startsWith('ollama://') ? self.format in ['ollama', 'gguf'] : self.format != 'ollama')",
        message:
          "spec.format of an ollama:// source is ollama (pulled by Ollama) or gguf (fetched for other runtimes), and no other source has format ollama",
      },
      {
        rule: "!((has(self.files) || has(self.ignorePatterns) || has(self.mmproj)) && self.source.startsWith('ollama://'))",
        message: "spec.files, spec.ignorePatterns and spec.mmproj have no meaning for an ollama:// source",
      },
      ...flavorRules,
    ],
  });

const MODEL_PHASES = ["Pending", "Downloading", "Ready", "Failed"] as const;

const modelCacheStatusSchema = z.object({
  phase: z
    .enum(MODEL_PHASES)
    .describe(
      "Phase of the copy. Ready: the files are on the volume, complete and verified. Pending while pods download them.",
    ),
  reason: z.string().max(63).describe("Reason code of the phase; see docs/errors.md."),
  message: z
    .string()
    .max(4096)
    .describe("Human-readable description of the current state and of what to do about it."),
  claimName: z.string().max(253).describe("PersistentVolumeClaim that holds the weights."),
  folder: z.string().max(64).describe("Folder on the volume. Empty if the weights are used in place."),
  file: z
    .string()
    .max(1024)
    .describe("Path that engines open, relative to folder: the main file or a directory.")
    .optional(),
  mmproj: z.string().max(1024).describe("Path of the projector, relative to folder.").optional(),
  key: z
    .string()
    .max(64)
    .describe("Hash of the downloaded content and of the UID of the claim, which identifies the download.")
    .optional(),
  bytes: bytes("Size of the files on the volume, in bytes.").optional(),
  totalBytes: bytes("Total size of all files in bytes, if the source states it.").optional(),
  attempts: z.int().min(0).describe("Number of download Jobs for this key that have failed.").optional(),
  failedAt: timestamp(
    "Time at which the last Job for this key failed. Another Job is created after a delay.",
  ).optional(),
  filledBy: z
    .enum(["Job", "Pods"])
    .describe(
      "Job: a download Job fills the volume before the Model is Ready. Pods: an init container of each pod downloads missing files, because the volume can only be mounted on one node, which the scheduler chooses for the pod; message says why. Defaults to Job.",
    )
    .optional(),
  singleNode: z
    .boolean()
    .describe(
      "True if a Job fills a volume that only one node at a time can mount. All pods that mount it then run on one node.",
    )
    .optional(),
});

const modelStatusSchema = z.object({
  phase: z
    .enum(MODEL_PHASES)
    .describe(
      "Phase of the Model. For hosts, Ready means that the source is resolved and its header was read; hosts download the weights on first use. For pods, Ready means that the weights are on a volume, complete and verified, or, if pods download them, that the source is resolved.",
    )
    .optional(),
  ...summaryFields,
  sizeBytes: bytes("Total size of all files in bytes.").optional(),
  size: z.string().max(32).describe("Human-readable size, for example 4.5 GiB.").optional(),
  weightsBytes: bytes(
    "Total size of the tensors in bytes, from the header: the memory that the weights use.",
  ).optional(),
  quantization: z
    .string()
    .max(128)
    .describe(
      "Quantization of safetensors according to quantization_config in their config.json, for example awq-4bit, gptq-4bit or fp8. Absent if the weights are not quantized, and for other formats.",
    )
    .optional(),
  sha256: z.string().max(64).describe("SHA-256 of the main file, if known.").optional(),
  format: formatSchema.describe("Format detected in the file or derived from the source.").optional(),
  files: z
    .array(z.string().max(1024))
    .max(512)
    .describe("Files that the source resolves to, the main file first.")
    .optional(),
  revision: z.string().max(256).describe("Revision or ETag of the source when it was last read.").optional(),
  shortRevision: z
    .string()
    .max(16)
    .describe("First digits of the commit, digest or change marker that replicas fetch.")
    .optional(),
  checkedAt: timestamp(
    "Time of the last successful check of the source. Set with refreshPolicy OnChange only.",
  ).optional(),
  changedAt: timestamp(
    "Time at which this content was first found at the source. Set with refreshPolicy OnChange only.",
  ).optional(),
  pinned: z
    .object({
      key: z.string().max(64).describe("Hash of the spec fields that the Model was resolved from."),
      file: z.string().max(1024).describe("Main file that was selected by spec.quantization.").optional(),
      revision: z
        .string()
        .max(128)
        .describe("Commit of the repository, or digest of the artifact.")
        .optional(),
      changeMarker: changeMarkerSchema.optional(),
    })
    .describe(
      "Content that every replica fetches. It does not change until a spec field that affects it changes.",
    )
    .optional(),
  cache: modelCacheStatusSchema
    .describe("Copy of the weights for pods, on a volume in the namespace. Absent if no pod needs one.")
    .optional(),
  cacheKey: z.string().max(64).describe("Key of the weights in model stores.").optional(),
  gguf: ggufSchema.describe("Metadata from the GGUF header.").optional(),
  hosts: z
    .array(
      z.object({
        name: hostName("Name of the Host."),
        sizeBytes: bytes("Size of the copy, in bytes.").optional(),
        sha256: z.string().max(64).describe("SHA-256 of the main file of the copy.").optional(),
      }),
    )
    .max(1000)
    .meta({
      description: "Hosts that have a verified copy.",
      "x-kubernetes-list-type": "map",
      "x-kubernetes-list-map-keys": ["name"],
    })
    .optional(),
  prefetch: z
    .object({
      wanted: z.int().min(0).describe("Number of hosts that must have a copy."),
      ready: z.int().min(0).describe("Number of these hosts that have a copy."),
      summary: z.string().max(32).describe("Both numbers in human-readable form, for example 2/3."),
    })
    .describe("Prefetched copies on hosts. Absent if the Model is not prefetched.")
    .optional(),
  benchmarks: z
    .array(
      benchmarkResultSchema.pick({ deviceClass: true, runtime: true, build: true, measuredAt: true }).extend({
        tokensPerSecond: z.number().min(0).describe("Median generation speed with an empty context."),
      }),
    )
    .max(64)
    .meta({
      description: "Valid measurements of this model, sorted by device class and runtime.",
      "x-kubernetes-list-type": "atomic",
    })
    .optional(),
  conditions: conditionsSchema.optional(),
});

export const modelSchema = z.object({
  ...objectFields,
  spec: modelSpecSchema.describe("Source and requirements of the weights."),
  status: modelStatusSchema.describe("Status of the Model, written by the controller.").optional(),
});

export type ModelStatus = z.output<typeof modelStatusSchema>;
export type Model = z.output<typeof modelSchema>;
