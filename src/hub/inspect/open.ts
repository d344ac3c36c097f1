/** Opens a source of any kind with the reader from a registry. */
import type { RemoteSource } from "../../models/source/kinds/registry.ts";
import { openGs } from "../buckets/gs.ts";
import { openOss } from "../buckets/oss.ts";
import { openS3 } from "../buckets/s3.ts";
import { sendSourceRequest } from "../client.ts";
import { openHttp } from "../http/open.ts";
import { openHuggingFace } from "../hugging-face/open.ts";
import { openModelScope } from "../modelscope/open.ts";
import { openOci } from "../oci/open.ts";
import { openOllama } from "../ollama/open.ts";
import type { Access, OpenSource, SourceReader } from "../remote-source.ts";

type Open<Source> = (source: Source, access: Access) => SourceReader;

const READERS: {
  readonly [Kind in RemoteSource["kind"]]: Open<Extract<RemoteSource, { readonly kind: Kind }>>;
} = {
  hf: openHuggingFace,
  http: openHttp,
  s3: openS3,
  oss: openOss,
  gs: openGs,
  modelscope: openModelScope,
  oci: openOci,
  ollama: openOllama,
};

/** Opens the source without sending a request. Throws MetalbridgeError for invalid credentials. */
export function openSource(source: RemoteSource, access: Access): OpenSource {
  const open = READERS[source.kind] as Open<RemoteSource>;
  const reader = open(source, access);
  const { authorize, judge, rules } = reader;
  return {
    ...reader,
    open: (url, request) => sendSourceRequest(url, { ...request, authorize, judge }, rules),
  };
}
