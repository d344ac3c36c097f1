/** Where a host answers users: what it says of its address counts only within what the operator allows. */
import { isAddressWithin } from "../address-within.ts";
import type { Host } from "./host.ts";

export interface RemotePlace {
  readonly address: string;
  readonly port: number;
}

/** Undefined where it offers nothing, or is at no address of its spec. */
export function remotePlaceOf({ spec, status }: Pick<Host, "spec" | "status">): RemotePlace | undefined {
  const address = status?.addresses?.find((one) => isAddressWithin(one, spec.addresses ?? []));
  const { port } = status?.remote ?? {};
  return address === undefined || port === undefined ? undefined : { address, port };
}
