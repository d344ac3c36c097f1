/** Does the model of a service take images? */
import { useQuery } from "@tanstack/react-query";
import { type ApiObject, getObject } from "../../../api/kube.ts";
import { texts } from "../../../texts/playground.ts";
import type { Offer } from "../services/offers.ts";

interface ModelObject extends ApiObject {
  readonly spec?: { readonly mmproj?: string };
}

interface ServiceObject extends ApiObject {
  readonly spec?: { readonly modelRefs?: readonly { readonly role?: string }[] };
}

/** On llama.cpp a model sees with the projector of its Model, or of the service. Other runtimes read that from the weights, and refuse images if it cannot. */
const NEEDS_PROJECTOR: ReadonlySet<string> = new Set(["llamacpp", ""]);

/** Undefined if it does, or if the reader may not know; else the reason. */
export function useBlindness(offer: Offer | undefined): string | undefined {
  const { runtime = "", namespace = "", name = "", model = "" } = offer?.row ?? {};
  const needsProjector = NEEDS_PROJECTOR.has(runtime);
  const { data: hasProjector, isLoading } = useQuery({
    queryKey: ["playground", "sight", namespace, name, model],
    queryFn: async ({ signal }) => {
      const read = <T extends ApiObject>(resource: string, object: string) =>
        getObject<T>({ resource, namespace, name: object }, signal);
      const { spec } = await read<ServiceObject>("inferenceservices", name);
      if (spec?.modelRefs?.some(({ role }) => role === "projector") === true) return true;
      return (await read<ModelObject>("models", model)).spec?.mmproj !== undefined;
    },
    enabled: offer?.row !== undefined && needsProjector,
    staleTime: 60_000,
    retry: false,
  });
  if (offer === undefined || isLoading) return "";
  return hasProjector === false ? texts.blind : undefined;
}
