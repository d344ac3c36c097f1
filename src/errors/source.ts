/** Where weights come from: addresses, downloads, file formats. */
import type { ErrorEntry } from "./entry.ts";

export const sourceErrors = {
  SourceInvalid: {
    what: "The text of the source cannot be read.",
    do: "write it as hf://org/repo[/file][@revision], https://…, file:///…, pvc://claim/path, s3://bucket/key or ollama://name:tag",
  },
  SourceSecretInvalid: {
    what: "The Secret that spec.sourceSecretRef names is missing, unreadable, or holds no usable token.",
    do: "create it in the Model's namespace with the key HF_TOKEN (or token)",
    command: "kubectl create secret generic NAME --from-literal=HF_TOKEN=…",
  },
  SourceChanged: {
    what: "The file changed at its source while it was being read.",
    do: "nothing, it is read again by itself",
  },
  GgufBadMagic: {
    what: "The file does not begin like a GGUF file.",
    do: "use the address of a .gguf file; for other formats set spec.format",
  },
  GgufBigEndian: {
    what: "The GGUF file is written for big-endian machines.",
    do: "use the little-endian file of the model",
  },
  GgufVersion: {
    what: "The GGUF file has a version that is not known.",
    do: "convert the model again with a current llama.cpp (versions 2 and 3 are read)",
  },
  GgufTruncated: {
    what: "The file ends inside the GGUF header.",
    do: "upload the file again; it was cut off",
  },
  GgufTooLarge: {
    what: "The GGUF header claims counts or lengths that no real model has.",
    do: "use another file of the model; this one is damaged or hostile",
  },
  ClaimUnknown: {
    what: "The header does not tell enough to know how much memory the model needs.",
    do: "use a GGUF file with complete metadata (convert the model again with a current llama.cpp)",
  },
  GgufMalformed: {
    what: "The GGUF header contradicts itself or holds a type that is not known.",
    do: "use another file of the model, or convert it again with a current llama.cpp",
  },
  SourceNotAllowed: {
    what: "The source names an address, a remote host or a path that this host may not read.",
    do: "use a source inside the agent's allowed roots or hosts, or allow it in the agent's configuration",
  },
  SourceNotFound: {
    what: "The source does not exist: the server answered 404, or there is no such file on the host.",
    do: "check the spelling of the source, its revision and its file names",
  },
  SourceUnauthorized: {
    what: "The server wants credentials for this source (401).",
    do: "put a token into a Secret and name it in the Model's spec.sourceSecretRef",
  },
  SourceForbidden: {
    what: "The credentials given do not allow this source (403).",
    do: "ask for access to the model (gated models need their terms accepted), or use another token",
  },
  SourceUnreachable: {
    what: "The server of the source could not be reached: name, connection or TLS failed.",
    do: "check the host name, the network and the certificate from this machine; it is tried again by itself",
  },
  SourceUnavailable: {
    what: "The server of the source answered with an error that may pass (429 or 5xx).",
    do: "wait, it is tried again by itself; look at the server if it lasts",
  },
  SourceRefused: {
    what: "The server of the source answered with a status that will not pass by itself.",
    do: "open the source in a browser or with curl and correct it",
  },
  SourceStalled: {
    what: "The download stopped delivering bytes.",
    do: "it is resumed by itself where it stopped; check the network if it lasts",
  },
  SourceRedirects: {
    what: "The source redirects in a circle, too often, or to nowhere.",
    do: "use the final address as the source",
  },
  SourceTruncated: {
    what: "The server ended the download before the promised length.",
    do: "it is resumed by itself; check the server or a proxy in between if it lasts",
  },
  SourceEmpty: {
    what: "The source has zero bytes.",
    do: "upload the file again, or correct the source",
  },
  SourceIsNotAModel: {
    what: "What the source delivers is not a model file, for example a web page.",
    do: "use the direct download address of the file: log-in and preview pages answer with HTML; in a clone with pointers of Git LFS run git lfs pull",
  },
  SourceAmbiguous: {
    what: "The repository holds several models and nothing says which one is meant.",
    do: "name the file in the source (hf://org/repo/file.gguf) or in spec.files",
  },
  SourceNotSupported: {
    what: "This kind of source cannot be fetched by a host.",
    do: "use http(s)://, hf:// or file:// for models that run on hosts",
  },
  ChecksumMismatch: {
    what: "The content does not have the checksum that the Model states.",
    do: "correct spec.sha256, or find out who changed the file",
  },
  FileNameNotAllowed: {
    what: "A file name of the model leaves its folder or holds characters that file names may not have.",
    do: "use plain relative names in spec.files and spec.mmproj",
  },
  DiskFull: {
    what: "The model does not fit on the host's disk.",
    do: "free space on the volume outside the model store, raise spec.disk.quota of the Host if the message names it, or place the model elsewhere; models in the store that no replica uses are removed by themselves, longest unused first",
    command: "kubectl get hosts",
  },
  FileUnreadable: {
    what: "The file exists on the host, but the agent's user may not read it, or it is not a regular file.",
    do: "correct the path or its permissions for the agent's user",
  },
} as const satisfies Record<string, ErrorEntry>;
