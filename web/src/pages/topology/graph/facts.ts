/** The live figures that cards show. Places do not depend on them. */
import { createContext, useContext } from "react";
import type { HostRow, ServiceRow } from "../../../../../src/console/rows.ts";
import type { pathOf, Selection, ServiceGroup } from "./graph.ts";

export interface Facts {
  readonly groups: ReadonlyMap<string, ServiceGroup>;
  readonly serviceOf: (key: string) => ServiceRow | undefined;
  readonly machineOf: (name: string) => HostRow | undefined;
  readonly waiting: number;
  readonly hasGateway: boolean;
  readonly selection: Selection | undefined;
  readonly path: ReturnType<typeof pathOf>;
  readonly select: (selection: Selection | undefined) => void;
}

export const FactsContext = createContext<Facts | undefined>(undefined);

export function useFacts(): Facts {
  const facts = useContext(FactsContext);
  if (facts === undefined) throw new Error("outside of FactsContext");
  return facts;
}
