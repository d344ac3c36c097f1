/** The services of the playground, kept current. */
import { useQuery } from "@tanstack/react-query";
import { useMemo } from "react";
import { gatewayModelsQuery } from "../../../api/gateway.ts";
import { useList } from "../../../live/hooks.ts";
import { type Mode, type Offer, offersOf } from "./offers.ts";

export interface Offers {
  readonly offers: readonly Offer[];
  readonly isLoading: boolean;
  readonly error: Error | null;
  readonly reload: () => void;
}

export function useOffers(mode: Mode): Offers {
  const { rows } = useList("services");
  const version = useMemo(() => versionOf(rows), [rows]);
  const { data, error, isPending, refetch } = useQuery(gatewayModelsQuery(version));
  const offers = useMemo(() => offersOf(data ?? [], rows, mode), [data, rows, mode]);
  return { offers, isLoading: isPending, error, reload: () => void refetch() };
}

/** Changes when services come, go, start to serve or stop. */
function versionOf(rows: readonly { readonly name: string; readonly phase: string }[]): string {
  return rows
    .map(({ name, phase }) => `${name} ${phase}`)
    .sort()
    .join();
}
