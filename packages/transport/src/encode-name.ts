/** A name as it stands in a key of Redis or in a public id: percent-encoded outside A-Z a-z 0-9 _ . - */
export function encodeName(name: string): string {
  return encodeURIComponent(name).replaceAll(/[!'()*~]/g, (character) => {
    return `%${character.charCodeAt(0).toString(16).toUpperCase()}`;
  });
}
