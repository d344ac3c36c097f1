/** The weights of a model, for engines that share one copy of them. */
import { stat } from "node:fs/promises";
import type { StoredFile } from "../../store/types.ts";

/** What identifies them, without reading them. */
export async function weightsIdentity(files: readonly StoredFile[]): Promise<string> {
  const marks = files.map(async ({ path, sha256 }) => {
    if (sha256 !== undefined) return sha256;
    const { dev, ino, size, mtimeMs } = await stat(path);
    return `${path} ${dev} ${ino} ${size} ${mtimeMs}`;
  });
  return (await Promise.all(marks)).join(" ");
}
