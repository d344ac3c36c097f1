/** Files of a PersistentVolumeClaim. */
import { InvalidSource, type SourceKind } from "./kind.ts";
import { lastName, relativePath } from "./path.ts";

export interface PvcSource {
  readonly kind: "pvc";
  readonly claim: string;
  readonly path: string;
}

const DNS_SUBDOMAIN = /^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$/;
const FORM = "pvc://claim/path/model.gguf";

export const PVC = {
  schemes: ["pvc"],
  form: "pvc://claim/path",
  readBy: "pods",
  parse: (rest): PvcSource => {
    const [claim = "", ...path] = rest.split("/");
    if (!DNS_SUBDOMAIN.test(claim))
      throw new InvalidSource(`${JSON.stringify(claim)} is not a claim's name`, FORM);
    return { kind: "pvc", claim, path: relativePath(path.join("/"), FORM) };
  },
  fileName: ({ path }: PvcSource) => lastName(path),
} satisfies SourceKind<PvcSource>;
