/** What a cluster holds, so that a test can say what an installation leaves. */
import type { Kubectl } from "../bed/kubectl.ts";

/** Every object, as `KIND NAMESPACE/NAME`, but Events and what the API server itself keeps. */
export async function everything(kubectl: Kubectl): Promise<ReadonlySet<string>> {
  const kinds = await kubectl(["api-resources", "--verbs=list", "-o", "name"]);
  const kept = kinds
    .trim()
    .split("\n")
    .filter((kind) => !/^(events|apiservices|componentstatuses)\b/.test(kind));
  const format = 'jsonpath={range .items[*]}{.kind}{" "}{.metadata.namespace}/{.metadata.name}{"\\n"}{end}';
  const listed = await kubectl(["get", kept.join(","), "-A", "-o", format]);
  return new Set(listed.trim().split("\n"));
}

/** What has come since, without the account and the certificates that every namespace has. */
export async function newSince(kubectl: Kubectl, before: ReadonlySet<string>): Promise<readonly string[]> {
  const left = [...(await everything(kubectl))].filter((one) => !before.has(one));
  return left.filter((one) => !/ default$|\/default$|\/kube-root-ca\.crt$/.test(one)).sort();
}
