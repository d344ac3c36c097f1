/** The subset of Markdown that models write: paragraphs, headings, lists, code, bold, italic. Everything else stays text. Pure. */

export type Block =
  | { readonly kind: "paragraph"; readonly text: string }
  | { readonly kind: "heading"; readonly text: string }
  | { readonly kind: "code"; readonly text: string; readonly language: string }
  | { readonly kind: "list"; readonly isOrdered: boolean; readonly items: readonly ListItem[] };

export interface ListItem {
  /** 0 for the outermost. */
  readonly depth: number;
  /** Number of an item in an ordered list, as written. */
  readonly marker: string;
  readonly text: string;
}

export interface Span {
  readonly kind: "text" | "bold" | "italic" | "code";
  readonly text: string;
}

const FENCE = /^\s{0,3}(`{3,}|~{3,})\s*([^\s`]*)/;
const ITEM = /^(\s*)([-*+]|\d{1,9}[.)])\s+(.*)$/;
const HEADING = /^\s{0,3}#{1,6}\s+(.*?)\s*#*\s*$/;
const INDENT = 2;
const MAX_DEPTH = 5;

/** Total: an unfinished text, such as an answer that is still written, gives the blocks so far. */
export function parseMarkdown(text: string): readonly Block[] {
  const lines = text.replaceAll("\r\n", "\n").split("\n");
  const blocks: Block[] = [];
  let at = 0;
  while (at < lines.length) {
    const [block, next] = blockAt(lines, at);
    if (block !== undefined) blocks.push(block);
    at = next;
  }
  return blocks;
}

function blockAt(lines: readonly string[], at: number): readonly [Block | undefined, number] {
  const line = lines[at] ?? "";
  if (line.trim() === "") return [undefined, at + 1];
  const fence = FENCE.exec(line);
  if (fence !== null) return codeAt(lines, at, fence[1] ?? "```", fence[2] ?? "");
  const heading = HEADING.exec(line)?.[1];
  if (heading !== undefined) return [{ kind: "heading", text: heading }, at + 1];
  return ITEM.test(line) ? listAt(lines, at) : paragraphAt(lines, at);
}

function codeAt(
  lines: readonly string[],
  at: number,
  mark: string,
  language: string,
): readonly [Block, number] {
  let end = at + 1;
  while (end < lines.length && !isClosing(lines[end] ?? "", mark)) end += 1;
  return [{ kind: "code", language, text: lines.slice(at + 1, end).join("\n") }, end + 1];
}

function isClosing(line: string, mark: string): boolean {
  const text = line.trim();
  return text.length >= mark.length && text === (mark[0] ?? "`").repeat(text.length);
}

function listAt(lines: readonly string[], at: number): readonly [Block, number] {
  const items: ListItem[] = [];
  let end = at;
  for (; end < lines.length; end += 1) {
    const line = lines[end] ?? "";
    const item = ITEM.exec(line);
    const last = items.at(-1);
    if (item !== null) {
      const [, indent = "", marker = "-", text = ""] = item;
      const depth = Math.min(MAX_DEPTH, Math.floor(indent.replaceAll("\t", "  ").length / INDENT));
      items.push({ depth, marker, text });
    } else if (line.trim() === "") {
      if (!ITEM.test(lines[end + 1] ?? "")) break;
    } else if (/^\s+/.test(line) && last !== undefined && !FENCE.test(line)) {
      items[items.length - 1] = { ...last, text: `${last.text}\n${line.trim()}` };
    } else break;
  }
  const isOrdered = /^\d/.test(items[0]?.marker ?? "");
  return [{ kind: "list", isOrdered, items }, end];
}

function paragraphAt(lines: readonly string[], at: number): readonly [Block, number] {
  let end = at + 1;
  while (end < lines.length && !startsBlock(lines[end] ?? "")) end += 1;
  return [{ kind: "paragraph", text: lines.slice(at, end).join("\n") }, end];
}

function startsBlock(line: string): boolean {
  return line.trim() === "" || FENCE.test(line) || HEADING.test(line) || ITEM.test(line);
}

/** Marks have text directly inside them, so that `2 * 3 * 4` stays as it is. */
const SPAN =
  /(`+)(?<code>[^`](?:.*?[^`])?)\1(?!`)|\*\*(?<bold>\S(?:.*?\S)?)\*\*|(?<![\w*])\*(?<italic>[^\s*](?:[^*]*[^\s*])?)\*(?![\w*])/gs;

export function parseSpans(text: string): readonly Span[] {
  const spans: Span[] = [];
  let from = 0;
  for (const match of text.matchAll(SPAN)) {
    if (match.index > from) spans.push({ kind: "text", text: text.slice(from, match.index) });
    const { code, bold, italic } = match.groups ?? {};
    if (code !== undefined) spans.push({ kind: "code", text: code });
    else if (bold !== undefined) spans.push({ kind: "bold", text: bold });
    else spans.push({ kind: "italic", text: italic ?? "" });
    from = match.index + match[0].length;
  }
  if (from < text.length) spans.push({ kind: "text", text: text.slice(from) });
  return spans;
}
