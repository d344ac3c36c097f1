/** Screenshots with a palette of 256 colors, in a third of the size: pages have few colors, and pictures are kept in git. */
import { crc32, deflateSync, inflateSync } from "node:zlib";

const SIGNATURE = Buffer.from([0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a]);
const COLORS = 256;
const RGB = 3;
/** More than between any two colors. */
const FAR = 3 * 256 ** 2;

/** Of a screenshot of Chromium, whose pixels have 8 bits per channel. */
export function shrinkPng(png: Buffer): Buffer {
  const chunks = chunksOf(png);
  const header = chunks.find(({ type }) => type === "IHDR")?.data ?? Buffer.alloc(0);
  const [width, height] = [header.readUInt32BE(0), header.readUInt32BE(4)];
  const channels = header[9] === 6 ? RGB + 1 : RGB;
  const packed = Buffer.concat(chunks.filter(({ type }) => type === "IDAT").map(({ data }) => data));
  const pixels = colorsOf(inflateSync(packed), { width, height, channels });
  const palette = paletteOf(pixels);
  const rows = Buffer.alloc((width + 1) * height);
  for (const [at, color] of pixels.entries()) rows[at + Math.floor(at / width) + 1] = nearest(palette, color);
  const ihdr = Buffer.from(header);
  ihdr[9] = 3;
  const plte = Buffer.from(palette.colors.flatMap((color) => [color >> 16, (color >> 8) & 255, color & 255]));
  return Buffer.concat([
    SIGNATURE,
    chunk("IHDR", ihdr),
    chunk("PLTE", plte),
    chunk("IDAT", deflateSync(rows, { level: 9, memLevel: 9 })),
    chunk("IEND", Buffer.alloc(0)),
  ]);
}

interface Palette {
  readonly colors: readonly number[];
  readonly places: Map<number, number>;
}

/** Each time the color that would be missed most: by how many pixels, and by how far off the nearest one is. */
function paletteOf(pixels: Uint32Array): Palette {
  const counts = new Map<number, number>();
  for (const color of pixels) counts.set(color, (counts.get(color) ?? 0) + 1);
  const left = Array.from(counts, ([color, count]) => ({ color, weight: Math.sqrt(count), error: FAR }));
  const kept: number[] = [];
  while (kept.length < COLORS && left.some(({ error }) => error > 0)) {
    const next = left.reduce((most, one) => (one.weight * one.error > most.weight * most.error ? one : most));
    kept.push(next.color);
    for (const one of left) one.error = Math.min(one.error, distance(one.color, next.color));
  }
  return { colors: kept, places: new Map(kept.map((color, index) => [color, index])) };
}

function nearest({ colors, places }: Palette, color: number): number {
  const known = places.get(color);
  if (known !== undefined) return known;
  let [best, least] = [0, FAR];
  for (const [index, one] of colors.entries()) {
    const off = distance(one, color);
    if (off < least) [best, least] = [index, off];
  }
  places.set(color, best);
  return best;
}

function distance(a: number, b: number): number {
  const red = (a >> 16) - (b >> 16);
  const green = ((a >> 8) & 255) - ((b >> 8) & 255);
  const blue = (a & 255) - (b & 255);
  return red * red + green * green + blue * blue;
}

interface Raster {
  readonly width: number;
  readonly height: number;
  readonly channels: number;
}

/** Undoes the filter of each row. */
function colorsOf(rows: Buffer, { width, height, channels }: Raster): Uint32Array {
  const stride = width * channels;
  const colors = new Uint32Array(width * height);
  let above: Uint8Array = Buffer.alloc(stride);
  for (let y = 0; y < height; y += 1) {
    const start = y * (stride + 1);
    const row = rows.subarray(start + 1, start + 1 + stride);
    for (let x = 0; x < stride; x += 1) {
      const left = row[x - channels] ?? 0;
      const up = above[x] ?? 0;
      row[x] = (row[x] ?? 0) + predicted(rows[start] ?? 0, left, up, above[x - channels] ?? 0);
    }
    for (let x = 0; x < width; x += 1) colors[y * width + x] = row.readUIntBE(x * channels, RGB);
    above = row;
  }
  return colors;
}

function predicted(filter: number, left: number, up: number, corner: number): number {
  switch (filter) {
    case 1:
      return left;
    case 2:
      return up;
    case 3:
      return (left + up) >> 1;
    case 4:
      return paeth(left, up, corner);
    default:
      return 0;
  }
}

function paeth(left: number, up: number, corner: number): number {
  const [byLeft, byUp, byCorner] = [
    Math.abs(up - corner),
    Math.abs(left - corner),
    Math.abs(left + up - 2 * corner),
  ];
  if (byLeft <= byUp && byLeft <= byCorner) return left;
  return byUp <= byCorner ? up : corner;
}

function chunksOf(png: Buffer): readonly { readonly type: string; readonly data: Buffer }[] {
  const chunks = [];
  for (let at = SIGNATURE.length; at < png.length; ) {
    const size = png.readUInt32BE(at);
    chunks.push({ type: png.toString("latin1", at + 4, at + 8), data: png.subarray(at + 8, at + 8 + size) });
    at += size + 12;
  }
  return chunks;
}

function chunk(type: string, data: Buffer): Buffer {
  const body = Buffer.concat([Buffer.from(type, "latin1"), data]);
  const [size, sum] = [Buffer.alloc(4), Buffer.alloc(4)];
  size.writeUInt32BE(data.length);
  sum.writeUInt32BE(crc32(body));
  return Buffer.concat([size, body, sum]);
}
