/** The Markdown pages of the repository, taken apart. */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { gitFiles } from "../../scripts/project/git-files.ts";
import { root } from "../../scripts/project/root.ts";

export { root };

export interface Block {
  readonly language: string;
  readonly text: string;
  /** Of its first line in the page. */
  readonly line: number;
}

export interface Page {
  /** From the repository's root. */
  readonly path: string;
  readonly text: string;
  readonly blocks: readonly Block[];
  /** Without code blocks, so that what they hold is not read as prose. */
  readonly prose: string;
}

/** Files that git knows or would add. */
export function repositoryFiles(...patterns: readonly string[]): readonly string[] {
  return gitFiles(root, ...patterns);
}

/** Every Markdown page. */
export function allPages(): readonly Page[] {
  return repositoryFiles("*.md").map((path) => toPage(path, readFileSync(join(root, path), "utf8")));
}

/** Anchors as a code host makes them from headings, with a number where one occurs again. */
export function anchorsOf({ prose }: Page): ReadonlySet<string> {
  const seen = new Map<string, number>();
  const anchors = new Set<string>();
  for (const [, heading = ""] of prose.matchAll(/^#{1,6} +(.+?) *#*$/gm)) {
    const slug = heading
      .replace(/\[([^\]]*)\]\([^)]*\)/g, "$1")
      .toLowerCase()
      .replace(/[^\p{L}\p{N}\s_-]/gu, "")
      .trim()
      .replaceAll(/\s/g, "-");
    const times = seen.get(slug) ?? 0;
    seen.set(slug, times + 1);
    anchors.add(times === 0 ? slug : `${slug}-${times}`);
  }
  return anchors;
}

/** What stands between single backticks in prose. */
export function inlineCode({ prose }: Page): readonly string[] {
  return [...prose.matchAll(/`([^`\n]+)`/g)].map(([, code]) => code ?? "");
}

function toPage(path: string, text: string): Page {
  const blocks: Block[] = [];
  const prose = text.replace(/^( *)```([a-z]*)\n([\s\S]*?)^ *```/gm, (whole, indent, language, body, at) => {
    const stripped = String(body).replaceAll(new RegExp(`^${String(indent)}`, "gm"), "");
    const line = text.slice(0, Number(at)).split("\n").length + 1;
    blocks.push({ language: String(language), text: stripped, line });
    return String(whole).replaceAll(/[^\n]/g, "");
  });
  return { path, text, blocks, prose };
}
