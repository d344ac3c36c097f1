/** Sources of weights: addresses, downloads, file formats. */
import type { ErrorEntry } from "./entry.ts";

export const sourceErrors = {
  SourceInvalid: {
    what: "spec.source is not a valid source.",
    do: "write it as hf://org/repo[/file][@revision], https://…, file:///…, pvc://claim/path, s3://bucket/key, oci://registry/repository:tag or ollama://name:tag",
  },
  SourceSecretInvalid: {
    what: "The Secret that spec.sourceSecretRef names is missing, unreadable, or holds no usable credentials.",
    do: "create it in the Model's namespace with the keys of the source: HF_TOKEN (or token), AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, username and password of a registry (or with kubectl create secret docker-registry)",
    command: "kubectl create secret generic NAME -n NAMESPACE --from-literal=HF_TOKEN=…",
  },
  SourceChanged: {
    what: "The file changed at its source while it was being read.",
    do: "nothing to do: retried automatically",
  },
  SourceUnstable: {
    what: "The source of a Model with refreshPolicy OnChange returns a different ETag, Last-Modified or size at each request.",
    do: "nothing is rolled out until it returns the same values twice; use a server with stable ETags, or refreshPolicy IfNotPresent",
  },
  SourceChangesOften: {
    what: "The source of a Model with refreshPolicy OnChange changed at each of the last checks, and each change was rolled out.",
    do: "nothing to do: it is checked less often until a check finds the same content; to keep the current content, use refreshPolicy IfNotPresent",
  },
  SourceContentChanged: {
    what: "The content of a Model with refreshPolicy OnChange has changed at its source. Services that use the Model get a new revision, which is rolled out according to their settings.",
    do: "nothing to do; to roll back",
    command: "metalbridge rollout undo NAME",
  },
  SourceRevisionGone: {
    what: "The source no longer has the content of this revision of the service, and this host has no copy.",
    do: "wait for the next check of the Model, which creates a new revision; after a rollback, roll forward with metalbridge rollout undo or restore the content at the source",
  },
  GgufBadMagic: {
    what: "The file is not a GGUF file: its first bytes do not match.",
    do: "use the URL of a .gguf file; set spec.format for other formats",
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
    do: "upload the file again; it is truncated",
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
    what: "The GGUF header is inconsistent or contains an unknown type.",
    do: "use another file of the model, or convert it again with a current llama.cpp",
  },
  SourceNotAllowed: {
    what: "The source is an address, a remote host or a path that the host or the controller is not allowed to read.",
    do: "use another source, or allow it: a path with modelRoots in the agent's configuration; an address with --allow-networks of the controller for a Model, and with sources in the agent's configuration for a replica",
  },
  SourceNotFound: {
    what: "The source does not exist: the server answered 404, or there is no such file on the host.",
    do: "check the source, its revision and its file names for typos; a remote source is read again after up to 12 minutes, or immediately after a change of the Model",
  },
  SourceUnauthorized: {
    what: "The server requires credentials for this source, or does not accept them (401).",
    do: "put valid credentials (a token, access keys, or the user name and password of a registry) into a Secret and set the Model's spec.sourceSecretRef",
  },
  SourceForbidden: {
    what: "The server denied access with these credentials (403).",
    do: "request access to the model (for gated models accept the terms), or use another token; a changed Secret is used within 5 s (by a prefetch within 10 s for each Secret that the host waits for); the source itself is read again after up to 12 minutes, or immediately after a change of the Model",
  },
  SourceUnreachable: {
    what: "Cannot reach the source's server: DNS, the connection or TLS failed.",
    do: "check the host name and the network from the machine that reports it (the controller's for a Model, the host for a replica, the pod's for a download Job); retried automatically",
  },
  SourceCertificateUntrusted: {
    what: "The certificate of the source's server is not signed by an authority that this machine trusts, or has a different name.",
    do: "trust its authority: NODE_EXTRA_CA_CERTS for the controller and the agent, --cache-ca-config-map of the controller for download Jobs; retried automatically",
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
    what: "The server closed the connection before it sent the announced number of bytes.",
    do: "wait: resumed automatically; check the server or a proxy in between if it persists",
  },
  SourceEmpty: {
    what: "The source has zero bytes.",
    do: "upload the file again, or correct the source",
  },
  SourceIsNotAModel: {
    what: "The source returns something that is not a model file, for example a web page.",
    do: "use the direct download URL of the file, because login and preview pages return HTML; in a clone with Git LFS pointers, run git lfs pull",
  },
  SourceAmbiguous: {
    what: "The repository contains several models, and the Model does not select one.",
    do: "set spec.quantization, or the file in the source (hf://org/repo/file.gguf) or in spec.files",
  },
  FilesExcluded: {
    what: "spec.ignorePatterns of the Model exclude a file that it needs, or every file that could be its weights.",
    do: "remove or narrow the pattern that the message names, or name other files in spec.source, spec.files or spec.mmproj",
  },
  SourceNotSupported: {
    what: "Hosts or pods cannot fetch this kind of source, or the layers of an artifact are not files.",
    do: "use a source that is fetched over the network, such as https://, hf://, s3:// or oci://; for file:// in pods, have an administrator add the folder to pods.hostPaths of the chart",
  },
  ChecksumMismatch: {
    what: "The content does not match the checksum of the Model, or of the manifest of its source.",
    do: "correct spec.sha256 or the digest in spec.source, or find out how the file changed",
  },
  FileNameNotAllowed: {
    what: "A file name of the model points outside its folder or contains forbidden characters.",
    do: "use plain relative paths in spec.files and spec.mmproj",
  },
  DiskFull: {
    what: "The model does not fit on the host's disk, or on the volume of the model cache.",
    do: "free space outside the model store, raise spec.disk.quota of the Host if the message names it, or use another host; unused models in the store are evicted automatically, least recently used first; for a volume of the model cache, expand its PersistentVolumeClaim",
    command: "kubectl get hosts",
  },
  VolumeClaimNotFound: {
    what: "The PersistentVolumeClaim with the weights does not exist in the Model's namespace.",
    do: "create it there, or correct its name in spec.source (pvc://claim/path) or spec.modelCache.claimName; a claim of another namespace cannot be mounted",
    command: "kubectl get pvc -n NAMESPACE",
  },
  VolumeClaimPending: {
    what: "The PersistentVolumeClaim of a pvc:// source is not bound to a volume, so it contains no files yet.",
    do: "wait until it is bound, and copy the weights to it",
    command: "kubectl describe pvc NAME",
  },
  ModelCacheAmbiguous: {
    what: "Services of the same Model name different claims, but a Model is downloaded to a single claim.",
    do: "use the same spec.modelCache.claimName in all services of the Model, or one Model for each claim",
  },
  ModelCacheNotConfigured: {
    what: "The image of the controller is not configured, so it cannot create download Jobs.",
    do: "start the controller with --image, as the Helm chart does",
    command: "metalbridge controller --help",
  },
  DownloadedByPods: {
    what: "The pods of the services download the weights to the volume, instead of a Job before them. The message says which property of the storage is the reason.",
    do: "nothing, if the first pod may wait for the download; for a Job, use a StorageClass with access mode ReadWriteMany, or one with volumeBindingMode Immediate whose volumes all nodes can mount, and create the Model again",
    command: "kubectl get storageclasses",
  },
  DownloadUnschedulable: {
    what: "No node can run the pod of the download Job.",
    do: "read the message; lower spec.resources of the Model, or set spec.prefetchTolerations",
    command: "kubectl describe pods -n NAMESPACE -l metalbridge.dev/model=NAME",
  },
  DownloadImageUnavailable: {
    what: "The node cannot pull the image of the download Job.",
    do: "check --image and --image-pull-secrets of the controller",
    command: "kubectl describe pods -n NAMESPACE -l metalbridge.dev/model=NAME",
  },
  DownloadFailed: {
    what: "The download Job ended without a result: it was killed, evicted, ran out of memory or exceeded its deadline.",
    do: "a new Job resumes the download automatically after a delay; raise spec.resources.memory of the Model if it ran out of memory",
    command: "kubectl describe jobs -n NAMESPACE -l metalbridge.dev/model=NAME",
  },
  VolumeNotWritable: {
    what: "The volume of the model cache cannot be written by the download Job, which runs as user and group 65532, or by the init container, which runs as the user of its pod.",
    do: "use a storage class whose volumes honor fsGroup, or make the volume's root folder writable for the group; if pods fill the claim, set podSecurityContext.runAsUser of all services of the Model to the same value as before, or delete the claim so that it is filled again; change the Model to start a download before the time in its message",
    command: "kubectl get pvc -n NAMESPACE",
  },
  FileUnreadable: {
    what: "The file exists on the host, but the agent's user has no permission to read it, or it is not a regular file.",
    do: "fix the path or its permissions for the agent's user",
  },
} as const satisfies Record<string, ErrorEntry>;
