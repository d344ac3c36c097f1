/** GET /console/stream and POST /console/stream/<id>. */
import { randomBytes } from "node:crypto";
import type { FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import { z } from "zod";
import type { Density } from "../../../fitness/density/density.ts";
import { MetalbridgeError } from "../../../src/api/errors.ts";
import { CONSOLE_PATH } from "../../../src/console/protocol.ts";
import type { Clock, Log } from "../../../src/util/ports.ts";
import type { WatchedCluster } from "../../cluster/cluster.ts";
import type { Reach } from "../../cluster/reach.ts";
import { parseBody } from "../body.ts";
import type { ConsoleAccess, MountRoutes, Reader } from "../reader.ts";
import { startFarmHistory } from "./farm.ts";
import { Hub } from "./hub.ts";
import { createLookup, type ObjectReads } from "./lists.ts";
import type { ReadQueues } from "./queues.ts";
import { ConsoleStream } from "./stream.ts";
import { parseTopic } from "./topics.ts";

export interface LiveOptions {
  readonly reads: ObjectReads;
  readonly listen: WatchedCluster["listen"];
  readonly reach: Pick<Reach, "awaySinceMs" | "listen">;
  readonly density: Density;
  readonly readQueues: ReadQueues;
  readonly clock: Clock;
  readonly log: Log;
  readonly signal: AbortSignal;
}

const MAX_STREAMS = 256;
const MAX_STREAMS_OF_READER = 16;
const MAX_TOPICS = 32;

const topicSchema = z.string().transform((text, context) => {
  const topic = parseTopic(text);
  if (topic !== undefined) return topic;
  context.issues.push({ code: "custom", message: "there is no such topic", input: text });
  return z.NEVER;
});
const bodySchema = z.strictObject({ topics: z.array(topicSchema).max(MAX_TOPICS) });
const querySchema = z
  .object({ topics: z.string().default("") })
  .transform(({ topics }) => ({ topics: topics.split(",").filter((text) => text !== "") }))
  .pipe(bodySchema);

/** The routes of the live stream. The streams end with the server. */
export function createLive(options: LiveOptions): MountRoutes {
  const { reads, clock, log, density, readQueues, signal } = options;
  const state = { reads, lookup: createLookup(), density, clock };
  const onSample = () => hub.markAll("farm");
  const history = startFarmHistory(reads, clock, { signal, onSample });
  const hub = new Hub({ state, log, history, readQueues });
  options.listen((change) => hub.changed(change));
  // They reject when the server ends.
  for (const { whenSynced } of Object.values(reads))
    void whenSynced().then(
      () => hub.synced(),
      () => {},
    );
  options.reach.listen(() => hub.setAway(options.reach.awaySinceMs()));
  return (scope, access) => mountStream(scope, access, hub);
}

function mountStream(scope: FastifyInstance, access: ConsoleAccess, hub: Hub): void {
  scope.addHook("onClose", async () => hub.close());
  scope.get(`${CONSOLE_PATH}/stream`, { config: { calledBy: "stream" } }, async (request, reply) => {
    const { topics } = parseBody(querySchema, request.query);
    const reader = await access.requireReader(request);
    requireRoom(hub, reader, reply);
    reply.hijack();
    // The browser may have disconnected since.
    if (reply.raw.destroyed) return;
    const stream = new ConsoleStream(randomBytes(16).toString("hex"), reply.raw);
    reply.raw.once("close", () => hub.remove(stream));
    hub.add(stream, streamReader(request, reader, access));
    await hub.showFirst(stream, topics);
  });
  scope.post<{ readonly Params: { readonly id: string } }>(
    `${CONSOLE_PATH}/stream/:id`,
    { config: { calledBy: "call" } },
    async (request, reply) => {
      const { topics } = parseBody(bodySchema, request.body);
      const { id } = await access.requireReader(request);
      const stream = hub.find(request.params.id, id);
      if (stream === undefined)
        throw new MetalbridgeError("ConsoleStreamNotFound", "the server has no such stream");
      await hub.show(stream, topics);
      return reply.code(204).send();
    },
  );
}

function requireRoom(hub: Hub, { id, user }: Reader, reply: FastifyReply): void {
  const own = hub.streamsOf(id);
  if (own < MAX_STREAMS_OF_READER && hub.streams < MAX_STREAMS) return;
  reply.header("retry-after", "10");
  const why =
    own < MAX_STREAMS_OF_READER ? `${hub.streams} streams are open` : `${user} has ${own} open streams`;
  throw new MetalbridgeError("ConsoleStreamsFull", `too many streams: ${why}`);
}

function streamReader(
  request: FastifyRequest,
  reader: Reader,
  { readerOf, mayAccess }: ConsoleAccess,
): Parameters<Hub["add"]>[1] {
  return {
    id: reader.id,
    namespace: reader.namespace,
    mayAccess: (question) => mayAccess(reader, question),
    isSignedIn: async () => (await readerOf(request)) !== undefined,
  };
}
