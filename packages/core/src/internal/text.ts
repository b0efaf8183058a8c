/** @internal */

/**
 * The beginning of a text, with a mark if there is more. No character is cut in two.
 *
 * @internal
 */
export const shorten = (text: string, maxLength: number): string => {
  if (text.length <= maxLength) return text
  const end = /[\ud800-\udbff]/.test(text.charAt(maxLength - 2)) ? maxLength - 2 : maxLength - 1
  return `${text.slice(0, end)}…`
}

/**
 * The id itself, or with the first number behind it that makes it new.
 *
 * @internal
 */
export const unused = (id: string, taken: ReadonlySet<string>): string => {
  let candidate = id
  for (let number = 2; taken.has(candidate); number += 1) candidate = `${id}-${number}`
  return candidate
}
