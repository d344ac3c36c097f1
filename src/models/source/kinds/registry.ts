/** The kinds of sources, in the order of the reference. */
import { GS, OSS, S3 } from "./buckets.ts";
import { FILE } from "./file.ts";
import { HTTP } from "./http.ts";
import { HUGGING_FACE } from "./hugging-face.ts";
import type { SourceKind } from "./kind.ts";
import { MODELSCOPE } from "./modelscope.ts";
import { OCI } from "./oci.ts";
import { OLLAMA } from "./ollama.ts";
import { PVC } from "./pvc.ts";

const KINDS = {
  hf: HUGGING_FACE,
  http: HTTP,
  file: FILE,
  pvc: PVC,
  s3: S3,
  oss: OSS,
  gs: GS,
  modelscope: MODELSCOPE,
  oci: OCI,
  ollama: OLLAMA,
};

type Kinds = typeof KINDS;

/** A parsed `spec.source` of a Model: the kind of source, and its location. */
export type ModelSource = { [Kind in keyof Kinds]: ReturnType<Kinds[Kind]["parse"]> }[keyof Kinds];

/** Sources that the client of `src/hub` reads. */
export type RemoteSource = {
  [Kind in keyof Kinds]: Kinds[Kind] extends { readBy: "hub" } ? ReturnType<Kinds[Kind]["parse"]> : never;
}[keyof Kinds];

export const SOURCE_KINDS: readonly SourceKind<ModelSource>[] = Object.values(KINDS);

export function kindOf({ kind }: ModelSource): SourceKind<ModelSource> {
  return KINDS[kind];
}
