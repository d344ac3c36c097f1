/** Identifies a model's weights, for engines that share one copy of them. */
import { stat } from "node:fs/promises";
import type { StoredFile } from "../../store/types.ts";

/** By checksums where they are known, else by the files' metadata: no file is read. */
export async function weightsIdentity(files: readonly StoredFile[]): Promise<string> {
  const identities = files.map(async ({ path, sha256 }) => {
    if (sha256 !== undefined) return sha256;
    const { dev, ino, size, mtimeMs } = await stat(path);
    return `${path} ${dev} ${ino} ${size} ${mtimeMs}`;
  });
  return (await Promise.all(identities)).join(" ");
}
