/** One request at a time, and its outcome. */
import { useRef, useState } from "react";
import { askGateway } from "../../../api/gateway.ts";

export type Outcome<T> =
  | { readonly at: "none" }
  | { readonly at: "running" }
  | {
      readonly at: "done";
      readonly answer: T;
      readonly host: string | undefined;
      readonly ranMs: number;
    }
  | { readonly at: "failed"; readonly error: Error };

export function useRequest<T>(path: string) {
  const [outcome, setOutcome] = useState<Outcome<T>>({ at: "none" });
  const running = useRef<AbortController>(undefined);
  const run = async (body: object): Promise<void> => {
    running.current?.abort();
    const controller = new AbortController();
    running.current = controller;
    setOutcome({ at: "running" });
    const startMs = performance.now();
    try {
      const { answer, host } = await askGateway<T>(path, body, controller.signal);
      setOutcome({ at: "done", answer, host, ranMs: performance.now() - startMs });
    } catch (error) {
      if (controller.signal.aborted) setOutcome({ at: "none" });
      else setOutcome({ at: "failed", error: error instanceof Error ? error : new Error(String(error)) });
    }
  };
  return { outcome, run: (body: object) => void run(body), stop: () => running.current?.abort() };
}
