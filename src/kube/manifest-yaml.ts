/** Objects as YAML for kubectl. Pure. */
import { stringify } from "yaml";

/** kubectl and Helm read YAML 1.1, in which a key or value such as `on`, `yes` or `1_000` needs quotes. */
export const MANIFEST_YAML = { version: "1.1" } as const;

/** One document per object. */
export function manifestYaml(objects: readonly object[]): string {
  return objects.map((object) => stringify(object, MANIFEST_YAML)).join("---\n");
}
