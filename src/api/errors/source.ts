/** Where weights come from: addresses, downloads, file formats. */
import type { ErrorEntry } from "./entry.ts";

export const sourceErrors = {
  SourceInvalid: {
    what: "spec.source is not a valid source.",
    do: "write it as hf://org/repo[/file][@revision], https://…, file:///…, pvc://claim/path, s3://bucket/key or ollama://name:tag",
  },
  SourceSecretInvalid: {
    what: "The Secret that spec.sourceSecretRef names is missing, unreadable, or holds no usable token.",
    do: "create it in the Model's namespace with the key HF_TOKEN (or token)",
    command: "kubectl create secret generic NAME -n NAMESPACE --from-literal=HF_TOKEN=…",
  },
  SourceChanged: {
    what: "The file changed at its source while it was being read.",
    do: "nothing to do: retried automatically",
  },
  GgufBadMagic: {
    what: "The file is not a GGUF file: its first bytes do not match.",
    do: "use the URL of a .gguf file; for other formats set spec.format",
  },
  GgufBigEndian: {
    what: "The GGUF file is written for big-endian machines.",
    do: "use the model's little-endian file",
  },
  GgufVersion: {
    what: "The GGUF file's version is not supported.",
    do: "convert the model again with a current llama.cpp (versions 2 and 3 are supported)",
  },
  GgufTruncated: {
    what: "The file ends inside the GGUF header.",
    do: "upload the file again; it was cut off",
  },
  GgufTooLarge: {
    what: "The GGUF header claims counts or lengths that no real model has.",
    do: "use another file of the model; this one is corrupt or malicious",
  },
  ClaimUnknown: {
    what: "Cannot estimate memory: the model's header lacks fields.",
    do: "use a GGUF file with complete metadata (convert the model again with a current llama.cpp)",
  },
  GgufMalformed: {
    what: "The GGUF header is inconsistent or holds an unknown type.",
    do: "use another file of the model, or convert it again with a current llama.cpp",
  },
  SourceNotAllowed: {
    what: "The source is an address, a remote host or a path that the host or the controller is not allowed to read.",
    do: "use another source, or allow it: for a Model with --allow-networks of the controller, for a replica with modelRoots or sources in the agent's configuration",
  },
  SourceNotFound: {
    what: "The source does not exist: the server answered 404, or there is no such file on the host.",
    do: "check the source, its revision and its file names for typos",
  },
  SourceUnauthorized: {
    what: "The server requires credentials for this source (401).",
    do: "put a token into a Secret and set the Model's spec.sourceSecretRef",
  },
  SourceForbidden: {
    what: "The server denied access with these credentials (403).",
    do: "request access to the model (for gated models accept the terms), or use another token",
  },
  SourceUnreachable: {
    what: "Cannot reach the source's server: DNS, the connection or TLS failed.",
    do: "check the host name, the network and the certificate from the machine that reports it (the controller's for a Model, the host for a replica); retried automatically",
  },
  SourceUnavailable: {
    what: "The source's server returned a transient error (429 or 5xx).",
    do: "wait: retried automatically; check the server if it persists",
  },
  SourceRefused: {
    what: "The source's server returned a permanent error status.",
    do: "open the source in a browser or with curl and correct it",
  },
  SourceStalled: {
    what: "The download stalled: no data arrived before the timeout.",
    do: "wait: resumed automatically where it stopped; check the network if it persists",
  },
  SourceRedirects: {
    what: "The source redirects in a loop, too often, or without a target.",
    do: "use the final address as the source",
  },
  SourceTruncated: {
    what: "The server closed the download before its announced length.",
    do: "wait: resumed automatically; check the server or a proxy in between if it persists",
  },
  SourceEmpty: {
    what: "The source has zero bytes.",
    do: "upload the file again, or correct the source",
  },
  SourceIsNotAModel: {
    what: "The source returns something that is not a model file, for example a web page.",
    do: "use the direct download address of the file: login and preview pages return HTML; in a clone with Git LFS pointers run git lfs pull",
  },
  SourceAmbiguous: {
    what: "The repository holds several models, and the Model does not select one.",
    do: "set spec.quantization, or the file in the source (hf://org/repo/file.gguf) or in spec.files",
  },
  SourceNotSupported: {
    what: "Hosts cannot fetch this kind of source.",
    do: "use http(s)://, hf:// or file:// for models that run on hosts",
  },
  ChecksumMismatch: {
    what: "The content does not match the Model's checksum.",
    do: "correct spec.sha256, or find out how the file changed",
  },
  FileNameNotAllowed: {
    what: "A file name of the model points outside its folder or holds forbidden characters.",
    do: "use plain relative paths in spec.files and spec.mmproj",
  },
  DiskFull: {
    what: "The model does not fit on the host's disk.",
    do: "free space outside the model store, raise spec.disk.quota of the Host if the message names it, or use another host; unused models in the store are evicted automatically, least recently used first",
    command: "kubectl get hosts",
  },
  FileUnreadable: {
    what: "The file exists on the host, but the agent's user may not read it, or it is not a regular file.",
    do: "fix the path or its permissions for the agent's user",
  },
} as const satisfies Record<string, ErrorEntry>;
