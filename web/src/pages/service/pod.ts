/** The part of a pod that the page shows. */
import type { ApiObject } from "../../api/kube.ts";
import type { PodReport } from "../../../../src/verdicts/pod.ts";

export interface ServicePod extends ApiObject {
  readonly spec: { readonly nodeName?: string };
  readonly status?: PodReport["status"];
}
