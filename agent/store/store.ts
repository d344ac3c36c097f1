/** Opens the model store. */
import type { ModelStore, StoreOptions } from "./types.ts";

export async function openStore(options: StoreOptions): Promise<ModelStore> {
  throw new Error(`not built yet: ${options.dir}`);
}
