/** Messages of Envoy's access log service, envoy.service.accesslog.v3 and envoy.data.accesslog.v3. Pure. */
import { readFields } from "./wire.ts";

/** A request that Envoy has finished. Everything else about it is in its line of the access log. */
export interface AnsweredRequest {
  readonly id: string;
  /** 0: there was no response. */
  readonly status: number;
}

/** The requests of one message. Throws RangeError for damaged bytes. */
export function decodeAnswered(message: Buffer): readonly AnsweredRequest[] {
  return within(message, 2).flatMap((logs) =>
    within(logs, 1).map((entry) => ({
      id:
        within(entry, 3)
          .flatMap((request) => within(request, 9))[0]
          ?.toString() ?? "",
      status: within(entry, 4)
        .flatMap((response) => within(response, 1))
        .flatMap((code) => [...readFields(code)].map(({ number }) => number))
        .reduce((_, last) => last, 0),
    })),
  );
}

function within(message: Buffer, at: number): readonly Buffer[] {
  return [...readFields(message)].flatMap(({ field, bytes }) => (field === at ? [bytes] : []));
}
