/** The DNS of a cluster that has none: a few names, on an address that pods reach. */
import { createSocket } from "node:dgram";
import { once } from "node:events";

const HEADER = 12;
const TYPE_A = 1;
const NAME_ERROR = 3;
const TTL_SECONDS = 5;

export interface NameServer extends AsyncDisposable {
  /** Replaces what names lead to. */
  readonly set: (addresses: ReadonlyMap<string, string>) => void;
}

/** On port 53, where pods ask. */
export async function startNameServer(host: string): Promise<NameServer> {
  let known: ReadonlyMap<string, string> = new Map();
  const socket = createSocket("udp4", (query, { port, address }) => {
    socket.send(answerTo(query, known), port, address);
  });
  socket.bind(53, host);
  await once(socket, "listening");
  return {
    set: (addresses) => {
      known = addresses;
    },
    [Symbol.asyncDispose]: async () => {
      socket.close();
      await once(socket, "close");
    },
  };
}

/** IPv4 addresses alone: a known name has none of another type. */
function answerTo(query: Buffer, known: ReadonlyMap<string, string>): Buffer {
  const { name, end } = questionOf(query);
  const address = known.get(name);
  const isAsked = address !== undefined && query.readUInt16BE(end - 4) === TYPE_A;
  const header = Buffer.alloc(HEADER);
  query.copy(header, 0, 0, 2);
  // An authoritative answer, recursion available.
  header.writeUInt16BE(0x8580 | (address === undefined ? NAME_ERROR : 0), 2);
  header.writeUInt16BE(1, 4);
  header.writeUInt16BE(isAsked ? 1 : 0, 6);
  const record = Buffer.from([0xc0, HEADER, 0, TYPE_A, 0, 1, 0, 0, 0, TTL_SECONDS, 0, 4]);
  const octets = Buffer.from(isAsked ? address.split(".").map(Number) : []);
  const answer = isAsked ? [record, octets] : [];
  return Buffer.concat([header, query.subarray(HEADER, end), ...answer]);
}

function questionOf(query: Buffer): { readonly name: string; readonly end: number } {
  const labels: string[] = [];
  let at = HEADER;
  for (let length = query[at] ?? 0; length > 0; length = query[at] ?? 0) {
    labels.push(query.toString("latin1", at + 1, at + 1 + length));
    at += length + 1;
  }
  return { name: labels.join(".").toLowerCase(), end: at + 5 };
}
