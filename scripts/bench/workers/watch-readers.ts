/** Watches the density API in a separate process, so that reading does not slow the process that measures. */
export interface WatchReaders {
  readonly urls: readonly string[];
  readonly authorization: string;
}

/** Sums over all readers, sent after each part that one of them has read. */
export interface WatchProgress {
  readonly synced: number;
  readonly events: number;
}

let synced = 0;
let events = 0;

async function read(url: string, authorization: string): Promise<void> {
  const response = await fetch(url, { headers: { authorization, accept: "text/event-stream" } });
  if (response.status !== 200 || response.body === null) throw new Error(`${url}: ${response.status}`);
  const decoder = new TextDecoder();
  for await (const chunk of response.body) {
    const text = decoder.decode(chunk, { stream: true });
    events += text.split("event: put").length - 1;
    synced += text.split("event: synced").length - 1;
    process.send?.({ synced, events } satisfies WatchProgress);
  }
}

process.on("message", ({ urls, authorization }: WatchReaders) => {
  for (const url of urls) read(url, authorization).catch((error: unknown) => console.error(error));
});
process.on("disconnect", () => process.exit(0));
