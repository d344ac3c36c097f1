/** Finds words of the list in one file's text, and checks the waivers next to them. */
import { type WordRule, wordRules } from "./rules.ts";

export interface WordFinding {
  /** Counted from 1. */
  readonly line: number;
  readonly message: string;
}

/** `words-allow: REASON` in a comment waives a finding on its own line or, on a line of its own, on the next. */
const waiverMark = /words-allow\b:?\s*(.*?)\s*(?:\*\/|-->)?\s*$/;

const testFiles = /\.test\.[a-z]+$|(^|\/)(fixtures|golden|test|testing)\//;

const waiverAlone = /^\s*(?:\/\/|\/\*\*?|\*|#|<!--)\s*words-allow\b/;

/** Findings of one file, `path` relative to the repository. A waiver without a reason, or without a finding, is one too. */
export function findWords(path: string, text: string, rules: readonly WordRule[] = wordRules): WordFinding[] {
  const isTest = testFiles.test(path);
  const own = rules.filter(
    ({ only, notInTests }) =>
      !(isTest && notInTests === true) && (only?.some((prefix) => path.startsWith(prefix)) ?? true),
  );
  const lines = text.split("\n");
  return lines.flatMap((line, index) => {
    const waiver = waiverMark.exec(line);
    const messages =
      waiver === null
        ? waiverAlone.test(lines[index - 1] ?? "")
          ? []
          : wordsIn(line, own)
        : judgeWaiver(waiver[1] ?? "", waivedText(line, waiver.index, lines[index + 1] ?? ""), own);
    return messages.map((message) => ({ line: index + 1, message }));
  });
}

function waivedText(line: string, waiverStart: number, next: string): string {
  return waiverAlone.test(line) ? next : line.slice(0, waiverStart);
}

function judgeWaiver(reason: string, waived: string, rules: readonly WordRule[]): string[] {
  if (reason === "") return ["a waiver needs a reason: words-allow: REASON"];
  return wordsIn(waived, rules).length > 0 ? [] : ["nothing to waive here: remove words-allow"];
}

function wordsIn(line: string, rules: readonly WordRule[]): string[] {
  return rules.flatMap(({ pattern, instead }) => {
    const match = pattern.exec(line);
    return match === null ? [] : [`"${match[0]}": write ${instead}`];
  });
}
