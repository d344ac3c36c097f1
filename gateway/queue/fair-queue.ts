/**
 * Weighted fair queue of one model. Among keys, and among the users behind one key, the one with the least slot time in proportion
 * to its weight is next. Higher priorities are served first. Has no clock: slot time is passed in.
 */

export interface Share {
  /** The key. */
  readonly flow: string;
  readonly weight: number;
  readonly priority: number;
  /** A user behind the key, if the client names one. */
  readonly user: string | undefined;
}

export interface Waiting<T> {
  readonly share: Share;
  readonly item: T;
}

/** Usage of a key, or of a user behind one key. */
interface Usage {
  /** Slot time so far, divided by the weight. */
  used: number;
}

interface User<T> extends Usage {
  readonly waiting: Waiting<T>[];
}

interface Flow<T> extends Usage, Turns<User<T>> {}

/** Members that take turns. */
interface Turns<Member extends Usage> {
  readonly members: Map<string, Member>;
  /** Usage of the member that was served last. A returning member starts at this level, so idle time is not credited. */
  floor: number;
}

const UNNAMED = "";

export class FairQueue<T> {
  /** Keys by priority. */
  readonly #priorities = new Map<number, Turns<Flow<T>>>();
  #size = 0;

  get size(): number {
    return this.#size;
  }

  push(waiting: Waiting<T>): void {
    const { turns, flow, user } = this.#find(waiting.share);
    if (!hasWaiting(flow)) flow.used = Math.max(flow.used, turns.floor);
    if (user.waiting.length === 0) user.used = Math.max(user.used, flow.floor);
    user.waiting.push(waiting);
    this.#size += 1;
  }

  /** Removes a request whose client has left or whose deadline has passed. False if it is no longer queued. */
  remove(waiting: Waiting<T>): boolean {
    const { user } = this.#find(waiting.share);
    const index = user.waiting.indexOf(waiting);
    if (index >= 0) {
      user.waiting.splice(index, 1);
      this.#size -= 1;
    }
    this.#forget(waiting.share);
    return index >= 0;
  }

  /**
   * Removes one request from a full queue: at the lowest priority, the newest one of the key with the most requests, and of the
   * user with the most behind it. `last` is the request that was pushed last; it is removed if no other key has more.
   */
  removeExcess(last: Waiting<T>): Waiting<T> {
    const priority = Math.min(
      ...[...this.#priorities].filter(([, turns]) => someWait(turns)).map(([p]) => p),
    );
    const turns = this.#priorities.get(priority);
    const own = priority === last.share.priority ? this.#find(last.share) : undefined;
    const flow = largest(turns?.members, ({ members }) => countWaiting(members), own?.flow);
    const count = ({ waiting }: User<T>) => waiting.length;
    const user = largest(flow?.members, count, flow === own?.flow ? own?.user : undefined);
    const excess = user?.waiting.at(-1) ?? last;
    this.remove(excess);
    return excess;
  }

  /** Removes the next request, and charges its key for the expected slot time. */
  next(expectedSeconds: number): Waiting<T> | undefined {
    const priority = Math.max(
      ...[...this.#priorities].filter(([, turns]) => someWait(turns)).map(([p]) => p),
    );
    const turns = this.#priorities.get(priority);
    const flow = turns && leastUsed(turns, hasWaiting);
    const user = flow && leastUsed(flow, ({ waiting }) => waiting.length > 0);
    const waiting = user?.waiting.shift();
    if (turns === undefined || flow === undefined || user === undefined || waiting === undefined)
      return undefined;
    this.#size -= 1;
    this.start(waiting.share, expectedSeconds);
    return waiting;
  }

  /** Charges a request that gets a slot. Members that arrive later have no claim to earlier slots, which they did not wait for. */
  start(share: Share, expectedSeconds: number): void {
    const { turns, flow, user } = this.#find(share);
    turns.floor = Math.max(turns.floor, flow.used);
    flow.floor = Math.max(flow.floor, user.used);
    this.charge(share, expectedSeconds);
  }

  /** Adds slot time to a key; negative if a request took less than expected. */
  charge(share: Share, seconds: number): void {
    const { flow, user } = this.#find(share);
    flow.used += seconds / share.weight;
    user.used += seconds;
    this.#forget(share);
  }

  /** All requests in the order in which they will be served if no more arrive. */
  order(expectedSeconds: number): Waiting<T>[] {
    const copy = this.#copy();
    const order: Waiting<T>[] = [];
    for (let next = copy.next(expectedSeconds); next !== undefined; next = copy.next(expectedSeconds))
      order.push(next);
    return order;
  }

  #find({ priority, flow: key, user: name = UNNAMED }: Share) {
    const turns = entry(this.#priorities, priority, () => ({
      members: new Map<string, Flow<T>>(),
      floor: 0,
    }));
    const flow = entry(turns.members, key, () => newFlow<T>(turns.floor));
    const user = entry(flow.members, name, () => ({ used: flow.floor, waiting: [] as Waiting<T>[] }));
    return { turns, flow, user };
  }

  /** Drops members without requests whose usage is at the floor: a new member would have the same state. */
  #forget(share: Share): void {
    const { turns, flow, user } = this.#find(share);
    if (user.waiting.length === 0 && user.used <= flow.floor) flow.members.delete(share.user ?? UNNAMED);
    if (!hasWaiting(flow) && flow.used <= turns.floor) turns.members.delete(share.flow);
  }

  #copy(): FairQueue<T> {
    const copy = new FairQueue<T>();
    copy.#size = this.#size;
    for (const [priority, turns] of this.#priorities) {
      const flows = [...turns.members].map(([key, flow]) => [key, copyFlow(flow)] as const);
      copy.#priorities.set(priority, { members: new Map(flows), floor: turns.floor });
    }
    return copy;
  }
}

function newFlow<T>(used: number): Flow<T> {
  return { used, members: new Map(), floor: 0 };
}

function copyFlow<T>({ used, members, floor }: Flow<T>): Flow<T> {
  const users = new Map<string, User<T>>();
  for (const [name, user] of members) users.set(name, { used: user.used, waiting: [...user.waiting] });
  return { used, members: users, floor };
}

function entry<K, V>(map: Map<K, V>, key: K, create: () => V): V {
  const found = map.get(key);
  if (found !== undefined) return found;
  const created = create();
  map.set(key, created);
  return created;
}

function hasWaiting<T>({ members }: Flow<T>): boolean {
  for (const { waiting } of members.values()) if (waiting.length > 0) return true;
  return false;
}

function someWait<T>({ members }: Turns<Flow<T>>): boolean {
  for (const flow of members.values()) if (hasWaiting(flow)) return true;
  return false;
}

function countWaiting<T>(members: ReadonlyMap<string, User<T>>): number {
  let count = 0;
  for (const { waiting } of members.values()) count += waiting.length;
  return count;
}

/** `first`, unless another member is larger. */
function largest<Member>(
  members: ReadonlyMap<string, Member> | undefined,
  sizeOf: (member: Member) => number,
  first: Member | undefined,
): Member | undefined {
  let found = first;
  let size = first === undefined ? 0 : sizeOf(first);
  for (const member of members?.values() ?? []) {
    const other = sizeOf(member);
    if (other <= size) continue;
    found = member;
    size = other;
  }
  return found;
}

function leastUsed<Member extends Usage>(
  { members }: Turns<Member>,
  isWaiting: (member: Member) => boolean,
): Member | undefined {
  let least: Member | undefined;
  for (const member of members.values())
    if (isWaiting(member) && (least === undefined || member.used < least.used)) least = member;
  return least;
}
