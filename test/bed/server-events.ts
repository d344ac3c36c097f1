/** Server-sent events of a response, as they come. */
import { EventSourceParserStream } from "eventsource-parser/stream";

interface ServerEvent {
  readonly event: string | undefined;
  readonly data: string;
}

export function eventsOf(response: Response) {
  if (response.status !== 200) throw new Error(`the stream is refused: ${response.status}`);
  const body = response.body ?? new ReadableStream();
  const events = body.pipeThrough(new TextDecoderStream()).pipeThrough(new EventSourceParserStream());
  const reader = events.getReader();
  return {
    until: async (isIt: (event: ServerEvent) => boolean): Promise<void> => {
      for (;;) {
        const { value, done } = await reader.read();
        if (done) throw new Error("the stream is closed");
        if (isIt({ event: value.event, data: value.data })) return;
      }
    },
  };
}
