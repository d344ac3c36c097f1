/** Entry of the worker: one stream for all tabs of the browser, or for one tab where there is no SharedWorker. */
import type { ToWorker } from "./messages.ts";
import { Outbox } from "./outbox.ts";
import { LiveStream } from "./stream.ts";

interface Port {
  postMessage(message: unknown): void;
  onmessage: ((event: MessageEvent<ToWorker>) => void) | null;
}

const stream = new LiveStream();

function serve(port: Port): void {
  const outbox = new Outbox((batch) => port.postMessage(batch));
  let isKnown = false;
  port.onmessage = ({ data }) => {
    switch (data.do) {
      case "show":
        if (!isKnown) {
          isKnown = true;
          stream.add(outbox);
          // The lock is free when the tab is closed or has crashed; ports do not tell.
          void navigator.locks.request(data.lock, () => stream.remove(outbox));
        }
        stream.show(outbox, data.topics);
        return;
      case "next":
        outbox.next();
        return;
      case "reconnect":
        stream.reconnect();
        return;
      case "forget":
        stream.forget();
        return;
      default:
        data satisfies never;
    }
  };
}

self.addEventListener("online", () => stream.reconnect());
if ("onconnect" in self)
  self.addEventListener("connect", (event) => {
    const [port] = (event as MessageEvent).ports;
    if (port !== undefined) serve(port);
  });
else serve(self as unknown as Port);
