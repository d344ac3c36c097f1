/** Does the model of a service take images? */
import { useQuery } from "@tanstack/react-query";
import { type ApiObject, getObject } from "../../../api/kube.ts";
import { texts } from "../../../texts/playground.ts";
import type { Offer } from "../services/offers.ts";

interface ModelObject extends ApiObject {
  readonly spec?: { readonly mmproj?: string };
}

/** On llama.cpp a model sees with the projector of its Model. Other runtimes read that from the weights, and refuse images if it cannot. */
const NEEDS_PROJECTOR: ReadonlySet<string> = new Set(["llamacpp", ""]);

/** Undefined if it does, or may; else the reason. */
export function useBlindness(offer: Offer | undefined): string | undefined {
  const { runtime = "", namespace = "", model: name = "" } = offer?.row ?? {};
  const needsProjector = NEEDS_PROJECTOR.has(runtime);
  const { data } = useQuery({
    queryKey: ["playground", "sight", namespace, name],
    queryFn: ({ signal }) => getObject<ModelObject>({ resource: "models", namespace, name }, signal),
    enabled: offer !== undefined && needsProjector && name !== "",
    staleTime: 60_000,
    retry: false,
  });
  if (offer === undefined) return "";
  return !needsProjector || data?.spec?.mmproj !== undefined ? undefined : texts.blind;
}
