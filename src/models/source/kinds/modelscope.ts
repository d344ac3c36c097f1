/** Repositories of ModelScope. */
import { repositoryKind } from "./repository.ts";

export const MODELSCOPE = {
  ...repositoryKind("modelscope", "modelscope://org/repo[/file][@revision]", "master"),
  credentialKeys: ["MODELSCOPE_API_TOKEN", "MODELSCOPE_ENDPOINT"],
};
