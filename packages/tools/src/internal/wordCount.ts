/**
 * Counts words as `wc -w` of GNU coreutils does in a UTF-8 locale: a word is a run between white space that has at
 * least one printable character in it. Bytes that are not UTF-8 are neither white space nor printable.
 */
const separator = /[\t-\r \u00a0\u1680\u2000-\u200a\u202f\u205f\u2060\u3000]/
const unprintable = /[\p{Cc}\p{Cs}\p{Cn}\p{Zl}\p{Zp}\ufffd]/u

/** Takes the bytes of a text in pieces of any size. */
export const make = () => {
  const decoder = new TextDecoder("utf-8", { ignoreBOM: true })
  let words = 0
  let inWord = false
  const scan = (text: string) => {
    for (const character of text) {
      if (separator.test(character)) inWord = false
      else if (!inWord && !unprintable.test(character)) {
        inWord = true
        words++
      }
    }
  }
  return {
    add: (bytes: Uint8Array) => scan(decoder.decode(bytes, { stream: true })),
    end: () => {
      scan(decoder.decode())
      return words
    }
  }
}
