/** Entry of the console. */
import "./styles/tokens.css";
import "./styles/base.css";
import "./styles/layout.css";
import "./styles/controls.css";
import "./styles/states.css";
import "./styles/tables.css";
import { QueryClient, QueryClientProvider } from "@tanstack/react-query";
import { RouterProvider } from "@tanstack/react-router";
import { Tooltip } from "radix-ui";
import { StrictMode } from "react";
import { createRoot } from "react-dom/client";
import { ConsoleError } from "./api/request.ts";
import { router } from "./app/router.tsx";
import { openLive } from "./live/client.ts";
import { LiveContext } from "./live/hooks.ts";
import { startTheme } from "./parts/theme.ts";

const HINT_MS = 400;
const MAX_RETRIES = 2;

declare global {
  var __webpack_nonce__: string | undefined;
}
// The style elements that Radix adds beside an open dialog carry it (get-nonce).
globalThis.__webpack_nonce__ = document.querySelector<HTMLElement>("script[nonce]")?.nonce;

startTheme();

const queries = new QueryClient({
  defaultOptions: {
    queries: {
      // What the server refused stays refused; what did not arrive is retried.
      retry: (count, error) =>
        count < MAX_RETRIES && error instanceof ConsoleError && (error.status === 0 || error.status >= 500),
      refetchOnWindowFocus: false,
    },
  },
});

/** Gives all pages the stream. */
const live = openLive();

const element = document.getElementById("root");
if (element === null) throw new Error("index.html has no element #root");
createRoot(element).render(
  <StrictMode>
    <QueryClientProvider client={queries}>
      <LiveContext value={live}>
        <Tooltip.Provider delayDuration={HINT_MS}>
          <RouterProvider router={router} />
        </Tooltip.Provider>
      </LiveContext>
    </QueryClientProvider>
  </StrictMode>,
);
