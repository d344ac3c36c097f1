/** Back, while something lies over the page: it closes that and stays on the page. */
import { useBlocker, useRouter } from "@tanstack/react-router";
import { useEffect } from "react";

export function useBack(isOpen: boolean, onBack: () => void): void {
  const { history, navigate } = useRouter();
  useEffect(() => {
    // Before the first page of a visit is none that could be stayed on: back would leave the console.
    if (isOpen && history.location.state.__TSR_index === 0)
      void navigate({ to: ".", search: true, hash: true, resetScroll: false });
  }, [isOpen, history, navigate]);
  useBlocker({
    disabled: !isOpen,
    enableBeforeUnload: false,
    shouldBlockFn: ({ action }) => {
      if (action !== "BACK") return false;
      // The router goes forward again: what closes may change the address, which must be that of this page.
      addEventListener("popstate", () => setTimeout(onBack, 0), { once: true });
      return true;
    },
  });
}
