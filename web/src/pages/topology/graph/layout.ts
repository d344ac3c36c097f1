/** Places of the cards, in three lanes: gateway, services, machines. Pure: equal sets have equal places. */
import { MAX_SERVICES, type MachineId, type ServiceGroup } from "./graph.ts";

export interface Box {
  readonly x: number;
  readonly y: number;
  readonly width: number;
  readonly height: number;
}

export type MachineLook = "card" | "bar";

/** More machines than this are thin bars. */
export const MAX_CARDS = 12;
/** More machines than this are listed: their bars would be beyond every screen. */
export const MAX_BARS = 60;

interface Size {
  readonly width: number;
  readonly height: number;
  readonly gap: number;
  /** Before another column begins. */
  readonly rows: number;
}

const GATEWAY: Pick<Size, "width" | "height"> = { width: 152, height: 80 };
/** One column: an edge passes behind no card. */
const SERVICE: Size = { width: 264, height: 76, gap: 8, rows: MAX_SERVICES };
const MACHINES: Readonly<Record<MachineLook, Size>> = {
  card: { width: 288, height: 116, gap: 12, rows: MAX_CARDS },
  bar: { width: 288, height: 28, gap: 4, rows: MAX_BARS },
};
const LANE_GAP = 88;
const FRAME_PAD = 12;
const FRAME_HEAD = 28;

export interface Frame extends Box {
  readonly kind: "Host" | "Node";
}

export interface Layout {
  readonly gateway: Box;
  readonly services: ReadonlyMap<string, Box>;
  readonly machines: ReadonlyMap<string, Box>;
  /** Around the machines of one kind. */
  readonly frames: readonly Frame[];
  readonly width: number;
  readonly height: number;
  /** Each kind of machine. Else edges pass behind cards. */
  readonly isOneColumn: boolean;
}

/** `machines` in the order of their lane. */
export function layOut(
  groups: readonly ServiceGroup[],
  machines: readonly MachineId[],
  look: MachineLook,
): Layout {
  const ordered = orderByMachines(groups, machines);
  const servicesX = GATEWAY.width + LANE_GAP;
  const services = grid(ordered.length, SERVICE, servicesX, 0);
  const machinesX = servicesX + services.width + LANE_GAP;
  const size = MACHINES[look];
  const frames: Frame[] = [];
  const places = new Map<string, Box>();
  let y = 0;
  for (const kind of ["Host", "Node"] as const) {
    const members = machines.filter((machine) => machine.kind === kind);
    if (members.length === 0) continue;
    const inner = grid(members.length, size, machinesX + FRAME_PAD, y + FRAME_HEAD);
    for (const [index, { name }] of members.entries()) setBox(places, name, inner.boxes[index]);
    const [width, height] = [inner.width + 2 * FRAME_PAD, inner.height + FRAME_HEAD + FRAME_PAD];
    frames.push({ kind, x: machinesX, y, width, height });
    y += height + FRAME_PAD;
  }
  const placed = new Map<string, Box>();
  for (const [index, { id }] of ordered.entries()) setBox(placed, id, services.boxes[index]);
  const right = Math.max(...frames.map((frame) => frame.x + frame.width), servicesX + SERVICE.width);
  return {
    gateway: { x: 0, y: 0, ...GATEWAY },
    services: placed,
    machines: places,
    frames,
    width: right,
    height: Math.max(services.height, y - FRAME_PAD, GATEWAY.height),
    isOneColumn: frames.every(({ width }) => width <= size.width + 2 * FRAME_PAD),
  };
}

const READABLE_ZOOM = 0.8;
const MARGIN = 16;

/** Everything if it is readable then, else the upper left part. */
export function startOf(
  { width, height }: Pick<Layout, "width" | "height">,
  canvas: { readonly width: number; readonly height: number },
): { readonly x: number; readonly y: number; readonly zoom: number; readonly isCut: boolean } {
  const byWidth = (canvas.width - 2 * MARGIN) / width;
  const whole = Math.min(1, byWidth, (canvas.height - 2 * MARGIN) / height);
  const zoom = whole >= READABLE_ZOOM ? whole : Math.max(READABLE_ZOOM, Math.min(1, byWidth));
  const x = Math.max(MARGIN, Math.round((canvas.width - zoom * width) / 2));
  return { x, y: MARGIN, zoom, isCut: zoom > whole };
}

/** A service stands at the mean height of its machines, so that few edges cross. */
function orderByMachines(
  groups: readonly ServiceGroup[],
  machines: readonly MachineId[],
): readonly ServiceGroup[] {
  const place = new Map(machines.map(({ name }, index) => [name, index]));
  const mean = ({ machines: names }: ServiceGroup): number => {
    const indexes = names.flatMap((name) => place.get(name) ?? []);
    if (indexes.length === 0) return machines.length;
    return indexes.reduce((sum, index) => sum + index, 0) / indexes.length;
  };
  const means = new Map(groups.map((group) => [group.id, mean(group)]));
  return [...groups].sort(
    (a, b) => (means.get(a.id) ?? 0) - (means.get(b.id) ?? 0) || (a.id < b.id ? -1 : 1),
  );
}

/** Columns of equal height, filled from the top. */
function grid(count: number, { width, height, gap, rows }: Size, x: number, y: number) {
  const columns = Math.max(1, Math.ceil(count / rows));
  const perColumn = Math.max(1, Math.ceil(count / columns));
  const boxes = Array.from({ length: count }, (_, index): Box => {
    const [column, row] = [Math.floor(index / perColumn), index % perColumn];
    return { x: x + column * (width + gap), y: y + row * (height + gap), width, height };
  });
  return {
    boxes,
    width: columns * (width + gap) - gap,
    height: count === 0 ? 0 : Math.min(count, perColumn) * (height + gap) - gap,
  };
}

function setBox(places: Map<string, Box>, name: string, box: Box | undefined): void {
  if (box !== undefined) places.set(name, box);
}
