import { packageRoot } from "../../local/package-root.ts";

/** Folder of the repository. */
export const root = packageRoot();
