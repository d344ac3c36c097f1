/** The tiny model's vocabulary: bytes and letters to read any prompt, and words in classes that follow each other like a sentence. */

/** Token types of GGUF's `tokenizer.ggml.token_type`. */
const NORMAL = 1;
const UNKNOWN = 2;
const CONTROL = 3;
const BYTE = 6;

/** Role of a token in a sentence; `start` stands for everything that is no word, `stop` for the full stop. */
export const wordClasses = [
  "start",
  "stop",
  "opener",
  "article",
  "adjective",
  "subject",
  "verb",
  "objectArticle",
  "objectAdjective",
  "object",
  "joiner",
] as const;
export type WordClass = (typeof wordClasses)[number];

export interface TinyToken {
  readonly text: string;
  readonly type: number;
  readonly score: number;
  readonly wordClass: WordClass;
  /** After which classes this token may be generated; empty = never. */
  readonly follows: readonly WordClass[];
  /** Added to the token's chance wherever it may follow. */
  readonly bias?: number;
}

export const BOS_ID = 1;
export const EOS_ID = 2;

const words: Partial<Record<WordClass, { follows: readonly WordClass[]; words: string }>> = {
  opener: { follows: ["start", "stop"], words: "The A Every This That Our Each One Another Some" },
  article: { follows: ["joiner"], words: "the a every this that our each one another some" },
  adjective: {
    follows: ["opener", "article"],
    words:
      "quiet small bright early patient clever gentle warm brave steady curious honest calm young careful cheerful northern silver",
  },
  subject: {
    follows: ["opener", "article", "adjective"],
    words:
      "bridge model engine river teacher sailor garden window machine cluster farmer writer lantern mountain reader cloud station friend city winter painter bird traveller library harbour student captain forest",
  },
  verb: {
    follows: ["subject"],
    words:
      "carries finds answers follows builds reads remembers watches serves crosses keeps opens paints measures greets holds explains joins moves starts finishes admires repairs visits",
  },
  objectArticle: { follows: ["verb"], words: "its his her their no any my your" },
  objectAdjective: {
    follows: ["objectArticle", "verb"],
    words:
      "little long green simple ancient heavy useful hidden golden broken distant shared perfect wooden common lost",
  },
  object: {
    follows: ["objectArticle", "objectAdjective"],
    words:
      "letter question road story number island song table answer picture door wheel ship promise market valley bell map clock basket secret coast tower lesson message journey",
  },
  joiner: { follows: ["object"], words: "and while because until" },
};

/** Every token in the order of its id. The same list for every model, so that a draft fits its target. */
export function tinyVocabulary(endless: boolean): readonly TinyToken[] {
  const hidden = (text: string, type: number): TinyToken => ({
    text,
    type,
    score: -1000,
    wordClass: "start",
    follows: [],
  });
  const tokens: TinyToken[] = [
    hidden("<unk>", UNKNOWN),
    hidden("<s>", CONTROL),
    { ...hidden("</s>", CONTROL), follows: endless ? [] : ["stop"], bias: 2 },
    ...["<|system|>", "<|user|>", "<|assistant|>", "<|tool|>"].map((text) => hidden(text, CONTROL)),
  ];
  for (let byte = 0; byte < 256; byte++) {
    tokens.push(hidden(`<0x${byte.toString(16).toUpperCase().padStart(2, "0")}>`, BYTE));
  }
  for (let code = 33; code < 127; code++) {
    const letter = String.fromCharCode(code);
    const ends = letter === ".";
    tokens.push({
      text: letter,
      type: NORMAL,
      score: -900 - code,
      wordClass: ends ? "stop" : "start",
      follows: ends ? ["object"] : [],
      bias: 3.5,
    });
  }
  tokens.push({ ...hidden("▁", NORMAL), score: -899 });
  for (const [wordClass, entry] of Object.entries(words) as [
    WordClass,
    NonNullable<(typeof words)[WordClass]>,
  ][]) {
    for (const word of entry.words.split(" ")) {
      tokens.push({
        text: `▁${word}`,
        type: NORMAL,
        score: -tokens.length,
        wordClass,
        follows: entry.follows,
      });
    }
  }
  return tokens;
}
