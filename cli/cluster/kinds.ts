/** The words for kinds, as kubectl and users write them. Pure. */
import { HOSTS, INFERENCE_REPLICAS, INFERENCE_SERVICES, MODELS } from "../../src/api/kinds.ts";
import type { Kind, KubeObject } from "../../src/kube/types.ts";

const WORDS = [
  [INFERENCE_SERVICES, "services service isvc inferenceservices inferenceservice"],
  [MODELS, "models model mdl"],
  [INFERENCE_REPLICAS, "replicas replica irep inferencereplicas inferencereplica"],
  [HOSTS, "hosts host mbhosts mbhost"],
] as const;

const KIND_OF: ReadonlyMap<string, Kind<KubeObject>> = new Map(
  WORDS.flatMap(([kind, words]) => words.split(" ").map((word) => [word, kind])),
);

export const kindWords: readonly string[] = [...KIND_OF.keys()];

/** Undefined for a word that names no kind. */
export function kindOfWord(word: string): Kind<KubeObject> | undefined {
  return KIND_OF.get(word);
}

/** `isvc/chat`, or `inferenceservices.metalbridge.dev/chat` as `-o name` prints it. Undefined if the text names no kind. */
export function splitKind(
  text: string,
): { readonly kind: Kind<KubeObject>; readonly name: string } | undefined {
  const slash = text.indexOf("/");
  const [word = "", ...group] = text.slice(0, Math.max(0, slash)).split(".");
  const kind = kindOfWord(word);
  const isOurs = group.length === 0 || group.join(".") === kind?.group;
  return kind !== undefined && isOurs ? { kind, name: text.slice(slash + 1) } : undefined;
}

/** The name in `isvc/chat` and in `chat`. Text of another kind is returned as it is, and is no valid name. */
export function nameOfKind(text: string, ...kinds: readonly Kind<KubeObject>[]): string {
  const named = splitKind(text);
  return named !== undefined && kinds.includes(named.kind) ? named.name : text;
}
