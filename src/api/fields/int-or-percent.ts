/** A number of replicas, or a share of them, as in a Deployment. */
import { z } from "zod";

/** Up to 100 and up to 100 %. */
export function intOrPercent(description: string) {
  return z
    .union([
      z.int32().min(0).max(100),
      z
        .string()
        .max(4)
        .regex(/^(100|[1-9]?[0-9])%$/),
    ])
    .meta({ description, "x-kubernetes-int-or-string": true });
}
