/** Gives the pages below it the stream. */
import { type ReactNode, useState } from "react";
import { openLive } from "./client.ts";
import { LiveContext } from "./hooks.ts";

export function LiveProvider({ children }: { readonly children: ReactNode }) {
  const [live] = useState(openLive);
  return <LiveContext value={live}>{children}</LiveContext>;
}
