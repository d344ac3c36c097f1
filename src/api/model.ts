/** Model: source and requirements of the weights; their metadata in status. */
import { z } from "zod";
import { SOURCE_KINDS } from "../models/source/kinds/registry.ts";
import { conditionsSchema } from "./conditions.ts";
import { ggufSchema } from "./fields/gguf.ts";
import { hardwareSchema } from "./fields/hardware.ts";
import { labelSelectorSchema, tolerationsSchema } from "./fields/kubernetes.ts";
import { quantity } from "./fields/quantity.ts";
import {
  bytes,
  changeMarkerSchema,
  formatSchema,
  hostName,
  localReference,
  refreshPolicySchema,
  relativeFile,
  sha256Schema,
  timestamp,
  totalLength,
} from "./fields/shared.ts";
import { metadataSchema } from "./metadata.ts";

const SCHEMES = SOURCE_KINDS.flatMap(({ schemes }) => schemes).join("|");
const SOURCE = `^((${SCHEMES})://[^\\\\s]+|/[^\\\\s]+|[a-zA-Z0-9][a-zA-Z0-9_./@-]*)$`;
const FORMS = SOURCE_KINDS.map(({ form }) => form);

const modelSourceSchema = z
  .string()
  .min(1)
  .max(2048)
  .meta({
    description: `Where the weights come from: ${SOURCE_KINDS.map(({ form, fullForm = form }) => fullForm).join(", ")}.`,
    "x-kubernetes-validations": [
      {
        rule: `self.matches('${SOURCE}')`,
        message: `spec.source must be ${FORMS.slice(0, -1).join(", ")} or ${FORMS.at(-1)}, without spaces`,
      },
    ],
  });

/** They are part of each replica of the Model, and of each Host that prefetches it. */
const FILES_LENGTH_MAX = 32_768;

const modelSpecSchema = z
  .object({
    source: modelSourceSchema,
    sha256: sha256Schema
      .describe("SHA-256 of the main file in hex; a download that differs is refused. Absent: not checked.")
      .optional(),
    sourceSecretRef: localReference(
      "Secret with credentials for the source: HF_TOKEN, or username and password or .dockerconfigjson for a registry, or AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_REGION, AWS_ENDPOINT_URL; docs/models.md lists the keys of every source.",
      "Name of the Secret, in the Model's namespace.",
    ).optional(),
    refreshPolicy: refreshPolicySchema
      .describe(
        "IfNotPresent: pinned to the revision that was found first. OnChange: the controller checks the source periodically, without downloading; other content is a new revision of each service that uses the Model, rolled out under its own rules.",
      )
      .default("IfNotPresent"),
    prefetch: z
      .boolean()
      .describe(
        "True: hosts download the weights before any service needs them: those of prefetchHosts, or all that have a runtime and the memory for the model. They are evicted last. Weights for pods are downloaded when the Model is created, whatever this says.",
      )
      .default(false),
    prefetchHosts: z
      .object({
        names: z
          .array(hostName("Name of a Host."))
          .max(256)
          .meta({ description: "Hosts by name. Absent or empty: any.", "x-kubernetes-list-type": "set" })
          .optional(),
        selector: labelSelectorSchema.describe("Labels that a Host must have.").optional(),
      })
      .describe(
        "Hosts that download the weights before any service needs them, whatever they can run; prefetch need not be true.",
      )
      .optional(),
    prefetchTolerations: tolerationsSchema(
      "Tolerations of the pods that fetch the weights to a volume. Not for hosts.",
    ).optional(),
    format: formatSchema
      .describe(
        "Format of the weights. Absent: derived from the source (a .gguf file is gguf, ollama:// is ollama and runs in Ollama only; with gguf its weights are fetched for llamacpp too).",
      )
      .optional(),
    quantization: z
      .string()
      .max(64)
      .describe(
        "Quantization to choose if the source has several, for example Q4_K_M; also shown in listings.",
      )
      .optional(),
    files: z
      .array(relativeFile("A file of the source, relative to it."))
      .max(256)
      .meta({
        description:
          "Files to fetch, relative to the source, the main file first. Where the source names a file, that one is the main file and these are added to it. `*` and `?` stand for any text and any character, where the source has a list of files. Absent: the file that the source names, or its only model.",
        "x-kubernetes-list-type": "atomic",
        ...totalLength(FILES_LENGTH_MAX, "spec.files"),
      })
      .optional(),
    mmproj: relativeFile(
      "Projector file of the same source, for models that take images or sound.",
    ).optional(),
    hardware: hardwareSchema
      .describe("Accelerator and memory limits. Absent: hosts with an agent, without limits.")
      .optional(),
    resources: z
      .object({
        cpu: quantity("CPU of the download Job, for example 2 or 500m.").optional(),
        memory: quantity("Memory of the download Job, for example 1Gi.").optional(),
      })
      .describe("Resources of the Job that fetches the weights to a volume. Not for hosts.")
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
        rule: "!((has(self.files) || has(self.mmproj)) && self.source.startsWith('ollama://'))",
        message: "spec.files and spec.mmproj have no meaning for an ollama:// source",
      },
    ],
  });

const MODEL_PHASES = ["Pending", "Downloading", "Ready", "Failed"] as const;

const modelCacheStatusSchema = z.object({
  phase: z
    .enum(MODEL_PHASES)
    .describe("Ready: the files are on the volume, complete and verified. Pending while pods fill it."),
  reason: z.string().max(63).describe("Stable reason code of the phase; see docs/errors.md."),
  message: z.string().max(4096).describe("What is the case, then what to do."),
  claimName: z.string().max(253).describe("PersistentVolumeClaim that holds the weights."),
  folder: z.string().max(64).describe("Folder on its volume; empty for weights that are used in place."),
  file: z
    .string()
    .max(1024)
    .describe("What engines open: the main file or a folder, below the folder.")
    .optional(),
  mmproj: z.string().max(1024).describe("The projector, below the folder.").optional(),
  key: z
    .string()
    .max(64)
    .describe("Hash of what was downloaded, and of the claim's uid: another key is another download.")
    .optional(),
  bytes: bytes("Bytes that are on the volume.").optional(),
  totalBytes: bytes("Bytes of all files, where the source says it.").optional(),
  attempts: z.int().min(0).describe("Download Jobs of this key that have failed.").optional(),
  failedAt: timestamp("When the last Job of this key failed. Another is created after a delay.").optional(),
  filledBy: z
    .enum(["Job", "Pods"])
    .describe(
      "Job: a download Job fills the volume, and then the Model is Ready. Pods: an init container of each pod downloads what is missing, because the volume can only be mounted on one node, which the scheduler chooses for the pod. Absent: Job.",
    )
    .optional(),
});

const modelStatusSchema = z.object({
  phase: z
    .enum(MODEL_PHASES)
    .describe(
      "On hosts, Ready means that the source is resolved and its header read; hosts fetch on first use. For pods, Ready means that the weights are on a volume, complete and verified, or, where pods download them, that the source is resolved.",
    )
    .optional(),
  reason: z.string().max(63).describe("Stable reason code of the phase; see docs/errors.md.").optional(),
  message: z
    .string()
    .max(4096)
    .describe("Human-readable message: what is the case, then what to do.")
    .optional(),
  observedGeneration: z
    .int()
    .min(0)
    .describe("The metadata.generation that this status is based on.")
    .optional(),
  sizeBytes: bytes("Total size of all files in bytes.").optional(),
  size: z.string().max(32).describe("Human-readable size, for example 4.5 GiB.").optional(),
  weightsBytes: bytes(
    "Size of the tensors in bytes, from the header: the memory that the weights take.",
  ).optional(),
  sha256: z.string().max(64).describe("Checksum of the main file, if known.").optional(),
  format: formatSchema.describe("Format detected in the file or derived from the source.").optional(),
  files: z
    .array(z.string().max(1024))
    .max(512)
    .describe("Files that the source resolves to, main file first.")
    .optional(),
  revision: z.string().max(256).describe("Revision or ETag of the source when it was last read.").optional(),
  shortRevision: z
    .string()
    .max(16)
    .describe("First digits of what replicas fetch: of the commit or digest, or of the change marker.")
    .optional(),
  checkedAt: timestamp(
    "When a check of the source last succeeded. Only with refreshPolicy OnChange.",
  ).optional(),
  changedAt: timestamp(
    "When the source was first seen with this content. Only with refreshPolicy OnChange.",
  ).optional(),
  pinned: z
    .object({
      key: z.string().max(64).describe("Hash of the spec fields that this was resolved from."),
      file: z.string().max(1024).describe("Main file that spec.quantization chose.").optional(),
      revision: z
        .string()
        .max(128)
        .describe("Commit of the repository, or digest of the artifact.")
        .optional(),
      changeMarker: changeMarkerSchema.optional(),
    })
    .describe(
      "What every replica fetches beyond what the spec names; kept until a spec field that affects it changes.",
    )
    .optional(),
  cache: modelCacheStatusSchema
    .describe("Copy of the weights for pods, on a volume of the namespace. Absent: no pod needs one.")
    .optional(),
  cacheKey: z.string().max(64).describe("Key under which stores keep the weights.").optional(),
  gguf: ggufSchema.describe("Metadata from the GGUF header.").optional(),
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
  prefetch: z
    .object({
      wanted: z.int().min(0).describe("Hosts that are to have a copy."),
      ready: z.int().min(0).describe("Hosts of these that have it."),
      summary: z.string().max(32).describe("Both for people, for example 2/3."),
    })
    .describe("Copies on hosts that were wanted before any service. Absent: none is wanted.")
    .optional(),
  conditions: conditionsSchema.optional(),
});

export const modelSchema = z.object({
  apiVersion: z.string().exactOptional(),
  kind: z.string().exactOptional(),
  metadata: metadataSchema,
  spec: modelSpecSchema.describe("The weights and their requirements."),
  status: modelStatusSchema.describe("Status of the model.").optional(),
});

export type ModelSpec = z.output<typeof modelSpecSchema>;
export type ModelStatus = z.output<typeof modelStatusSchema>;
export type Model = z.output<typeof modelSchema>;
