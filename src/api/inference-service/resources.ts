/** Model cache of services in pods. */
import { z } from "zod";
import { nonEmpty } from "../fields/shared.ts";

export const modelCacheSchema = z
  .object({
    persistence: z
      .enum(["Cached", "Ephemeral"])
      .describe("Cached stores the weights on a volume, Ephemeral in the pod.")
      .optional(),
    claimName: nonEmpty(253)
      .describe(
        "Name of the PersistentVolumeClaim with the weights. Defaults to the model cache of the namespace.",
      )
      .optional(),
  })
  .meta({
    "x-kubernetes-validations": [
      {
        rule: "!(has(self.claimName) && has(self.persistence) && self.persistence == 'Ephemeral')",
        message: "modelCache.claimName cannot be used with modelCache.persistence Ephemeral",
      },
    ],
  });
